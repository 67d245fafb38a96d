/* When its standard input ends, a new thread "late" spins in late_work() for as many milliseconds of CPU
 * time as the argument says. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static long milliseconds = 500;

__attribute__((noinline)) static void late_work(void)
{
	clock_t end = clock() + milliseconds * (CLOCKS_PER_SEC / 1000);
	while (clock() < end)
		for (volatile int i = 0; i < 1000000; i++)
			;
}
static void *late(void *unused)
{
	pthread_setname_np(pthread_self(), "late");
	late_work();
	return unused;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	char rest;
	if (argc > 1)
		milliseconds = atol(argv[1]);
	while (read(0, &rest, 1) > 0)
		;
	pthread_create(&thread, 0, late, 0);
	pthread_join(thread, 0);
	return 0;
}
