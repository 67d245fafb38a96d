/* alone WHAT SECONDS [THREADS]: runs two threads, or THREADS, in one of these ways:
 *   mutex     the threads work while they own a lock
 *   slept     they also sleep with the lock, so that they lose time to each other even if other
 *             programs have the CPUs
 *   masked    as slept, with all signals blocked
 *   free      they work without a lock
 *   handover  two threads take turns
 *   spin      they do a part of their work with a spin lock of this program
 *   sharing   they write to one cache line
 *   calls     the main thread waits in system calls that a signal would end early, and the program
 *             prints whether one did
 *   watch     the program prints the longest time that a thread stood still, measured by its own
 *             CPU time, in microseconds
 * Exits with 7. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sem_t turns[2];
static const char *what;
static double end, longest;
static long interrupted;
static _Alignas(128) volatile int spins;
static _Alignas(128) volatile long counts[16];

static double read_clock(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec + 1e-9 * time.tv_nsec;
}

static double now(void)
{
	return read_clock(CLOCK_MONOTONIC);
}

__attribute__((noinline)) uint64_t work(uint64_t x, int rounds)
{
	for (int i = 0; i < rounds; i++)
		x = x * 6364136223846793005u + 1442695040888963407u;
	return x;
}

__attribute__((noinline)) uint64_t locked(uint64_t x)
{
	pthread_mutex_lock(&lock);
	if (strcmp(what, "mutex"))
		usleep(200);
	x = work(x, 20000);
	pthread_mutex_unlock(&lock);
	return x;
}

__attribute__((noinline)) uint64_t taken_in_turns(uint64_t x, long own)
{
	sem_wait(&turns[own]);
	x = work(x, 20000);
	sem_post(&turns[1 - own]);
	return x;
}

__attribute__((noinline)) void take_spin_lock(void)
{
	while (__atomic_exchange_n(&spins, 1, __ATOMIC_ACQUIRE))
		while (spins)
			__builtin_ia32_pause();
}

__attribute__((noinline)) uint64_t spin_locked(uint64_t x)
{
	take_spin_lock();
	x = work(x, 4000);
	__atomic_store_n(&spins, 0, __ATOMIC_RELEASE);
	return work(x, 3000);
}

__attribute__((noinline)) void count_up(long own)
{
	for (int i = 0; i < 500; i++)
		__atomic_fetch_add(&counts[own], 1, __ATOMIC_RELAXED);
}

static void wait_in_calls(void)
{
	struct timespec soon = { 0, 2000000 }, until;
	int polled = epoll_create1(0);
	struct epoll_event event;

	while (now() < end) {
		interrupted += poll(NULL, 0, 2) < 0;
		interrupted += nanosleep(&soon, NULL) < 0;
		interrupted += epoll_wait(polled, &event, 1, 2) < 0;
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec = (until.tv_nsec + 2000000) % 1000000000;
		interrupted += sem_timedwait(&turns[1], &until) < 0 && errno == EINTR;
	}
}

static uint64_t watch(uint64_t x)
{
	double last = read_clock(CLOCK_THREAD_CPUTIME_ID), next;

	while (now() < end) {
		x = work(x, 100);
		next = read_clock(CLOCK_THREAD_CPUTIME_ID);
		pthread_mutex_lock(&lock);
		if (next - last > longest)
			longest = next - last;
		pthread_mutex_unlock(&lock);
		last = read_clock(CLOCK_THREAD_CPUTIME_ID);
	}
	return x;
}

static void *worker(void *own)
{
	uint64_t x = (long)own;
	sigset_t all;

	sigfillset(&all);
	if (!strcmp(what, "masked"))
		pthread_sigmask(SIG_BLOCK, &all, NULL);
	if (!strcmp(what, "watch"))
		x = watch(x);
	while (now() < end)
		if (!strcmp(what, "free") || !strcmp(what, "calls"))
			x = work(x, 20000);
		else if (!strcmp(what, "spin"))
			x = spin_locked(x);
		else if (!strcmp(what, "sharing"))
			count_up((long)own);
		else if (!strcmp(what, "handover"))
			x = taken_in_turns(x, (long)own);
		else
			x = locked(x);
	sem_post(&turns[0]);
	sem_post(&turns[1]);
	return (void *)x;
}

int main(int count, char **words)
{
	int threads = count > 3 ? atoi(words[3]) : 2;
	pthread_t made[64];

	what = words[1];
	end = now() + atof(words[2]);
	sem_init(&turns[0], 0, 1);
	sem_init(&turns[1], 0, 0);
	for (long i = 0; i < threads; i++)
		pthread_create(&made[i], NULL, worker, (void *)i);
	if (!strcmp(what, "calls"))
		wait_in_calls();
	for (int i = 0; i < threads; i++)
		pthread_join(made[i], NULL);
	if (!strcmp(what, "watch"))
		printf("%.0f\n", 1e6 * longest);
	puts(interrupted ? "interrupted" : "done");
	return 7;
}
