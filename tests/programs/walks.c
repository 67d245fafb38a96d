/* Stacks of every kind, without frame pointers: a recursion below a callback of the C library, a signal
 * handler on a stack of its own, and threads. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

static volatile unsigned sink;

__attribute__((noipa)) static void work(unsigned rounds)
{
	unsigned x = rounds;
	for (unsigned i = 0; i < rounds; i++)
		x = x * 1664525u + 1013904223u;
	sink += x;
}
__attribute__((noipa)) static void recurse(int depth)
{
	char frame[24];
	memset(frame, depth, sizeof(frame));
	__asm__ volatile("" : : "r"(frame) : "memory");
	if (depth)
		recurse(depth - 1);
	else
		work(3000);
	sink += frame[3];
}
__attribute__((noipa)) static int compare(const void *a, const void *b)
{
	recurse(24);
	return *(const int *)a - *(const int *)b;
}
static void on_timer(int signal)
{
	(void)signal;
	work(100000);
}
static void *thread(void *argument)
{
	int numbers[64];
	for (int round = 0; round < 400; round++) {
		for (int i = 0; i < 64; i++)
			numbers[i] = (i * 7919) % 64 ^ round;
		qsort(numbers, 64, sizeof(int), compare);
	}
	return argument;
}

int main(void)
{
	stack_t own = { .ss_sp = malloc(65536), .ss_size = 65536 };
	struct sigaction action = { .sa_handler = on_timer, .sa_flags = SA_ONSTACK };
	struct itimerval each = { { 0, 3000 }, { 0, 3000 } };
	pthread_t threads[2];

	sigaltstack(&own, 0);
	sigaction(SIGALRM, &action, 0);
	setitimer(ITIMER_REAL, &each, 0);
	for (int i = 0; i < 2; i++)
		pthread_create(&threads[i], 0, thread, 0);
	thread(0);
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], 0);
	return 0;
}
