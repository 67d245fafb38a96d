/* work() takes its rare way once in 16 times: which an optimiser should be told. biased SECONDS */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static volatile uint64_t sink;

static uint64_t usual(uint64_t x)
{
	return x * 3 ^ x >> 7;
}

__attribute__((noinline)) uint64_t work(uint64_t x, uint64_t times)
{ /* lines are counted from the one before */
	for (uint64_t i = 0; i < times; i++) {
		x ^= x << 13, x ^= x >> 7, x ^= x << 17;
		if ((x & 15) == 0)
			sink = x % 1000003;
		else
			sink = usual(x);
	}
	return x;
}

int main(int argc, char **argv)
{
	time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 1);
	uint64_t x = 88172645463325252ull;

	while (time(NULL) <= end)
		x = work(x, 1000000);
	printf("%d\n", x != 0);
	return 0;
}
