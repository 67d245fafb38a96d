/* All time is in work_of_threads, of two threads with names of their own. The first thread has ended before standard input does, so
 * that the kernel shows the process as ended. The process is called leaderless. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static volatile unsigned long sink;

__attribute__((noinline)) static void work_of_threads(void)
{
	for (unsigned long i = 0; i < 1000000; i++)
		sink += i * i;
}

static void *worker(void *name)
{
	struct timespec used;
	char byte;

	prctl(PR_SET_NAME, name);
	read(0, &byte, 1);
	do {
		work_of_threads();
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
	} while (used.tv_sec < 1);
	return 0;
}

int main(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, worker, "first-worker");
	pthread_create(&thread, 0, worker, "second-worker");
	pthread_exit(0);
}
