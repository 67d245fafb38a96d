/* six() takes 60 % of the time, three() 30 %, one() 10 %: the same loop, in numbers of turns as 6:3:1 (from
 * different seeds, so that the compiler does not fold the three into one). */
#include <stdlib.h>

#define LOOP(name, seed)                                                          \
	__attribute__((noinline)) static unsigned long name(unsigned long n) \
	{                                                                    \
		unsigned long x = seed;                                         \
		for (unsigned long i = 0; i < n; i++) {                      \
			__asm__ volatile("" : "+r"(x));                      \
			x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul;            \
		}                                                            \
		return x;                                                    \
	}
LOOP(six, 6)
LOOP(three, 3)
LOOP(one, 1)

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], 0, 0) : 3000;
	volatile unsigned long sink = 0;
	while (rounds--)
		sink += six(120000) + three(60000) + one(20000);
	return 0;
}
