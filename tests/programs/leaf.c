/* `outer` and `leaf`, which it calls and which has no frame, run loops of the same length: leaf SECONDS. */
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static unsigned leaf(unsigned x)
{
	for (int i = 0; i < 200; i++)
		x = x * 1664525 + 1013904223;
	return x;
}

__attribute__((noinline)) static unsigned outer(unsigned x)
{
	for (int call = 0; call < 1000; call++) {
		for (int i = 0; i < 200; i++)
			x = x * 22695477 + 1;
		x = leaf(x);
	}
	return x;
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int main(int count, char **words)
{
	double end = now() + atof(words[count - 1]);
	unsigned sum = 1;

	while (now() < end)
		sum = outer(sum);
	return sum == 1;
}
