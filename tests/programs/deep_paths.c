/* Two threads that each recurse FRAMES deep along paths of chance, again and again: nearly every sample has a stack of its own.
 * deep_paths SECONDS [FRAMES] */
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

static volatile unsigned sink;
static int frames = 300;
static time_t end;

static void go(int depth, unsigned *seed);

#define STEP(n)                                                         \
	__attribute__((noipa)) static void step##n(int depth, unsigned *seed) \
	{                                                               \
		go(depth - 1, seed);                                    \
		sink++; /* so that the call is none at the end */        \
	}
STEP(0) STEP(1) STEP(2) STEP(3) STEP(4) STEP(5) STEP(6) STEP(7)

static void (*const steps[])(int, unsigned *) = { step0, step1, step2, step3, step4, step5, step6, step7 };

__attribute__((noipa)) static void leaf(unsigned *seed)
{
	unsigned x = *seed;

	for (int i = 0; i < 30000; i++)
		x = x * 1664525u + 1013904223u;
	sink += x;
}

__attribute__((always_inline)) static inline void go(int depth, unsigned *seed)
{
	if (!depth) {
		leaf(seed);
		return;
	}
	*seed = *seed * 1664525u + 1013904223u;
	steps[*seed >> 29](depth, seed);
}

static void *work(void *seed)
{
	unsigned own = (unsigned)(size_t)seed;

	while (time(0) < end) {
		go(frames, &own);
		sink++;
	}
	return 0;
}

int main(int argc, char **argv)
{
	pthread_t threads[2];

	end = time(0) + (argc > 1 ? atoi(argv[1]) : 10);
	if (argc > 2)
		frames = atoi(argv[2]);
	for (size_t i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, work, (void *)(i + 1));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
