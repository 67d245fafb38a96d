/* work() is called 20 million times and goes round 200 million times, 80 and 120 million times each
 * way: known to whoever counts lines. */
#include <stdint.h>
#include <stdio.h>

static volatile uint64_t sink;
static volatile uint64_t first = 0;

__attribute__((noinline)) uint64_t work(uint64_t x, uint64_t times, uint64_t often)
{
	for (uint64_t i = 0; i < times; i++) {
		x = x * 6364136223846793005ull + 1442695040888963407ull;
		if (i % 3 == often) {
			sink = x >> 33;
			x ^= sink;
		} else {
			sink += x & 0xff;
			if (sink == 12345)
				puts("!");
		}
	}
	return x;
}

int main(void)
{
	uint64_t x = 88172645463325252ull;

	for (int i = 0; i < 20000000; i++)
		x = work(x, 10, first);
	printf("%d\n", x != 0);
	return 0;
}
