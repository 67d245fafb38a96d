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
/* The clock is looked at rarely, so that the time is spent here and not in reading it. */
__attribute__((noinline)) static void first_half(long until)
{
	while (now() < until)
		for (int i = 0; i < 2000; i++)
			__asm__ volatile("");
}
__attribute__((noinline)) static void second_half(long until)
{
	while (now() < until)
		for (int i = 0; i < 2000; i++)
			__asm__ volatile("nop");
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
