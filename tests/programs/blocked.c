/* The thread "sleeper" blocks in wait_for_byte() for 20 times 20 ms, woken by the thread "waker";
 * main waits for both in pthread_join. */
#define _GNU_SOURCE
#include <pthread.h>
#include <time.h>
#include <unistd.h>

static int fds[2];

__attribute__((noinline)) static void wait_for_byte(void)
{
	char byte;
	if (read(fds[0], &byte, 1) != 1)
		_exit(1);
	__asm__ volatile("");
}
static void *sleeper(void *unused)
{
	pthread_setname_np(pthread_self(), "sleeper");
	for (int i = 0; i < 20; i++)
		wait_for_byte();
	return unused;
}
static void *waker(void *unused)
{
	struct timespec pause = { 0, 20000000 };
	pthread_setname_np(pthread_self(), "waker");
	for (int i = 0; i < 20; i++) {
		nanosleep(&pause, 0);
		if (write(fds[1], "", 1) != 1)
			_exit(1);
	}
	return unused;
}

int main(void)
{
	pthread_t threads[2];
	if (pipe(fds))
		return 1;
	pthread_create(&threads[0], 0, sleeper, 0);
	pthread_create(&threads[1], 0, waker, 0);
	pthread_join(threads[0], 0);
	pthread_join(threads[1], 0);
	return 0;
}
