/* Three quarters of the time are in three() and one quarter in one(), below 24 frames of recursion, in two threads: split ROUNDS. */
#include <pthread.h>
#include <stdlib.h>

static volatile unsigned sink;

__attribute__((noipa)) static void three(unsigned rounds)
{
	unsigned x = rounds;
	for (unsigned i = 0; i < 3 * rounds; i++)
		x = x * 1664525u + 1013904223u;
	sink += x;
}

__attribute__((noipa)) static void one(unsigned rounds)
{
	unsigned x = ~rounds;
	for (unsigned i = 0; i < rounds; i++)
		x = x * 1664525u + 1013904223u;
	sink += x;
}

__attribute__((noipa)) static void deep(int depth, long rounds)
{
	if (depth)
		deep(depth - 1, rounds);
	else
		while (rounds--) {
			three(100000);
			one(100000);
		}
	sink++; /* so that the call is none at the end */
}

static void *work(void *rounds)
{
	deep(23, (long)rounds);
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	long rounds = argc > 1 ? atol(argv[1]) : 1000;

	pthread_create(&thread, 0, work, (void *)rounds);
	work((void *)rounds);
	pthread_join(thread, 0);
	return 0;
}
