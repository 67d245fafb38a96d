/* Twelve procedures of known relative work, in turn: `steps ROUNDS EXTRA` makes `step5` do EXTRA
 * percent more. */
#include <stdlib.h>

volatile unsigned long sink;

#define STEP(n)                                                            \
	__attribute__((noinline)) static void step##n(unsigned long count) \
	{                                                                  \
		for (unsigned long i = 0; i < count; i++)                  \
			sink += i ^ n;                                     \
	}
STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7) STEP(8) STEP(9) STEP(10) STEP(11) STEP(12)

int main(int argc, char **argv)
{
	unsigned long rounds = argc > 1 ? strtoul(argv[1], 0, 10) : 1000;
	unsigned long extra = argc > 2 ? strtoul(argv[2], 0, 10) : 0;

	for (unsigned long i = 0; i < rounds; i++) {
		step1(1000);
		step2(2000);
		step3(3000);
		step4(4000);
		step5(2000 + 20 * extra);
		step6(1000);
		step7(1500);
		step8(3000);
		step9(500);
		step10(2000);
		step11(1000);
		step12(3000);
	}
	return 0;
}
