/* In lock-step with a clock of 1 kHz: of each millisecond, first_half() takes the first half and
 * second_half() the other. A sampler with the same constant period sees only one of them. */
#include <stdlib.h>
#include <time.h>

static long now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000l + t.tv_nsec;
}
__attribute__((noinline)) static void first_half(long until)
{
	while (now() < until)
		;
}
__attribute__((noinline)) static void second_half(long until)
{
	while (now() < until)
		__asm__ volatile("");
}

int main(int argc, char **argv)
{
	long milliseconds = argc > 1 ? strtol(argv[1], 0, 0) : 1000;
	long start = now();
	for (long i = 0; i < milliseconds; i++) {
		first_half(start + i * 1000000 + 500000);
		second_half(start + i * 1000000 + 1000000);
	}
	return 0;
}
