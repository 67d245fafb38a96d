/* Waits for all signals, as daemons do, while its threads work, and ends with 9 at one that it does not know:
 * `all_signals wait|descriptor|poll SECONDS`. With the last one, a working thread asks for signals itself. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

static atomic_int over;
static sigset_t all;

__attribute__((noinline)) void serve(void)
{
	for (volatile int i = 0; i < 300000; i++)
		;
}

static void received(int number)
{
	if (number == SIGALRM || number == SIGTERM) {
		over = 1;
	} else if (number != SIGHUP && number != SIGCHLD) {
		printf("ended by signal %d\n", number);
		fflush(stdout);
		_exit(9);
	}
}

static void *work(void *argument)
{
	(void)argument;
	while (!over)
		serve();
	return NULL;
}

static void *work_and_ask(void *argument)
{
	(void)argument;
	struct timespec none = {0};
	while (!over) {
		serve();
		int number = sigtimedwait(&all, NULL, &none);
		if (number > 0)
			received(number);
	}
	return NULL;
}

static void *wait_for_signals(void *argument)
{
	(void)argument;
	while (!over) {
		int number;
		if (!sigwait(&all, &number))
			received(number);
	}
	return NULL;
}

/* Works in the thread that reads the descriptor, too. */
static void *read_descriptor(void *argument)
{
	(void)argument;
	struct pollfd signals = {.fd = signalfd(-1, &all, SFD_NONBLOCK), .events = POLLIN};
	while (!over) {
		serve();
		struct signalfd_siginfo info;
		if (poll(&signals, 1, 1) > 0 && read(signals.fd, &info, sizeof info) == sizeof info)
			received((int)info.ssi_signo);
	}
	return NULL;
}

int main(int count, char **arguments)
{
	sigfillset(&all);
	if (count < 3 || pthread_sigmask(SIG_BLOCK, &all, NULL))
		return 2;
	/* The mask is what was set, whoever looks. */
	sigset_t blocked;
	if (pthread_sigmask(SIG_BLOCK, NULL, &blocked) || !sigismember(&blocked, SIGSTKFLT))
		return 7;
	void *(*waits)(void *) = !strcmp(arguments[1], "wait")   ? wait_for_signals
				 : !strcmp(arguments[1], "poll") ? work_and_ask
								 : read_descriptor;
	pthread_t threads[3];
	pthread_create(&threads[0], NULL, waits, NULL);
	pthread_create(&threads[1], NULL, work, NULL);
	pthread_create(&threads[2], NULL, work, NULL);
	alarm((unsigned)atoi(arguments[2]));
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	sigset_t pending;
	sigpending(&pending);
	if (sigismember(&pending, SIGSTKFLT))
		return 8;
	puts("fine");
	return 0;
}
