/* Nearly all time is in the loop of hot(), on the line marked HOT; it returns 3. */
#include <stdlib.h>

__attribute__((noinline)) static unsigned long hot(unsigned long n)
{
	unsigned long x = 1;
	for (unsigned long i = 0; i < n; i++)
		x = (x ^ x << 13) * 0x9e3779b97f4a7c15ul; /* HOT */
	return x;
}

int main(int argc, char **argv)
{
	volatile unsigned long sink = hot(argc > 1 ? strtoul(argv[1], 0, 0) : 400000000);
	return sink ? 3 : 4;
}
