/* Threads that are cancelled wherever they are: in their own code, in the clock's, in a lock's. Prints how many were, and cleaned up. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_int cleaned;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
volatile long turns;

static void clean(void *argument)
{
	(void)argument;
	cleaned++;
}

__attribute__((noinline)) void progress(void)
{
	turns++;
}

static void *run(void *kind)
{
	struct timespec time;
	pthread_cleanup_push(clean, NULL);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
	for (;;) {
		if (kind == (void *)1)
			clock_gettime(CLOCK_MONOTONIC, &time);
		else
			turns++;
	}
	pthread_cleanup_pop(0);
	return NULL;
}

static void *wait_for_lock(void *argument)
{
	pthread_cleanup_push(clean, argument);
	for (;;) {
		pthread_mutex_lock(&lock);
		pthread_mutex_unlock(&lock);
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	int cancelled = 0;
	for (long i = 0; i < 300; i++) {
		pthread_t thread;
		void *result;
		pthread_create(&thread, NULL, i % 3 == 2 ? wait_for_lock : run, (void *)(i % 3));
		usleep((useconds_t)(1000 + i * 7919 % 9000));
		progress();
		pthread_cancel(thread);
		pthread_join(thread, &result);
		cancelled += result == PTHREAD_CANCELED;
	}
	printf("%d %d\n", cancelled, cleaned);
	return 6;
}
