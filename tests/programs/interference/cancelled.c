/* Threads that may be cancelled at any instruction, in functions that are so short that it happens between them too. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

static volatile long done;
static volatile int cleaned;

__attribute__((noinline)) void inner(void)
{
	done++;
}

__attribute__((noinline)) void outer(void)
{
	for (int i = 0; i < 100; i++)
		inner();
}

static void clean(void *argument)
{
	(void)argument;
	cleaned++;
}

static void *work(void *argument)
{
	int before;
	pthread_cleanup_push(clean, argument);
	pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &before);
	for (;;)
		outer();
	pthread_cleanup_pop(0);
	return NULL;
}

int main(void)
{
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		void *result;
		pthread_create(&thread, NULL, work, NULL);
		usleep(1000 + i * 13);
		pthread_cancel(thread);
		pthread_join(thread, &result);
		if (result != PTHREAD_CANCELED)
			return 2;
	}
	/* A thread may be cancelled before it can be. */
	printf("%s\n", cleaned > 190 ? "fine" : "not cleaned");
	return 6;
}
