/* Eight threads that compute in forty frames of recursion, or more: deep_threads ROUNDS [FRAMES]. Sampled often, they give more
 * copies of stacks than a recorder beside them has time to unwind. */
#include <pthread.h>
#include <stdlib.h>

static volatile unsigned sink;
static int frames = 40;

__attribute__((noipa)) static void leaf(void)
{
	unsigned x = 1;

	for (int i = 0; i < 20000; i++)
		x = x * 1664525u + 1013904223u;
	sink += x;
}

__attribute__((noipa)) static void deep(int depth, long rounds)
{
	if (depth)
		deep(depth - 1, rounds);
	else
		while (rounds--)
			leaf();
	sink++; /* so that the call is none at the end */
}

static void *work(void *rounds)
{
	deep(frames, (long)rounds);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[8];
	long rounds = argc > 1 ? atol(argv[1]) : 10000;

	if (argc > 2)
		frames = atoi(argv[2]);
	for (int i = 0; i < 8; i++)
		pthread_create(&threads[i], 0, work, (void *)rounds);
	for (int i = 0; i < 8; i++)
		pthread_join(threads[i], 0);
	return 0;
}
