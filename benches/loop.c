/* loop CPU KIND WINDOWS WINDOW_MS OUT: how fast a loop runs on one CPU, window by window.
 *
 * Windows are aligned to CLOCK_MONOTONIC, so that loops on several CPUs and the switch in toggle.c
 * agree on them without talking. A rate is iterations per second of the thread's own CPU time:
 * being preempted does not count, interrupts do. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TABLE = 1 << 18 };
static uint64_t state = 88172645463325252u;
static uint32_t *table;
static volatile uint64_t sink;

static uint64_t nanoseconds(clockid_t clock)
{
	struct timespec t;
	clock_gettime(clock, &t);
	return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static inline uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	return state ^= state << 17;
}

static __attribute__((noinline)) void arithmetic(void)
{
	for (int i = 0; i < 4000; i++)
		next();
	sink = state;
}

/* Reads and writes all over 1 MB. */
static __attribute__((noinline)) void memory(void)
{
	uint64_t sum = 0;
	for (int i = 0; i < 1500; i++) {
		uint32_t value = table[next() & (TABLE - 1)];
		sum += value & 1 ? value * 3 : value >> 2;
		table[(value * 2654435761u) >> 14] = (uint32_t)sum;
	}
	sink = sum;
}

/* The arithmetic below some callers, for stacks. */
static __attribute__((noinline)) void deep(int depth)
{
	if (depth)
		deep(depth - 1);
	else
		arithmetic();
	__asm__ volatile(""); /* no tail call */
}

static void work(const char *kind)
{
	if (!strcmp(kind, "memory"))
		memory();
	else if (!strcmp(kind, "deep"))
		deep(16);
	else
		arithmetic();
}

int main(int count, char **arguments)
{
	if (count != 6) {
		fprintf(stderr, "usage: loop CPU arithmetic|memory|deep WINDOWS WINDOW_MS OUT\n");
		return 2;
	}
	const char *kind = arguments[2];
	int windows = atoi(arguments[3]);
	uint64_t width = strtoull(arguments[4], 0, 10) * 1000000, settle = width / 6, margin = width / 50;
	cpu_set_t cpus;
	CPU_ZERO(&cpus);
	CPU_SET(atoi(arguments[1]), &cpus);
	FILE *out = fopen(arguments[5], "w");
	table = malloc(TABLE * sizeof *table);
	if (sched_setaffinity(0, sizeof cpus, &cpus) || !out || !table) {
		perror("loop");
		return 1;
	}
	for (uint32_t i = 0; i < TABLE; i++)
		table[i] = i * 2654435761u;

	uint64_t first = nanoseconds(CLOCK_MONOTONIC) / width + 1;
	for (uint64_t window = first; window < first + windows; window++) {
		while (nanoseconds(CLOCK_MONOTONIC) < window * width + settle)
			work(kind);
		uint64_t before = nanoseconds(CLOCK_THREAD_CPUTIME_ID), done = 0;
		while (nanoseconds(CLOCK_MONOTONIC) < (window + 1) * width - margin) {
			for (int i = 0; i < 4; i++)
				work(kind);
			done += 4;
		}
		uint64_t spent = nanoseconds(CLOCK_THREAD_CPUTIME_ID) - before;
		/* Too little of the window was ours: no figure. */
		if (spent > width / 5)
			fprintf(out, "%llu %.3f\n", (unsigned long long)window, done * 1e9 / spent);
	}
	return fclose(out) ? 1 : 0;
}
