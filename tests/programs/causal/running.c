/* Two threads that work in rounds, and run until they are told to end; says at the end how often a call was interrupted. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stop;
static long interrupted, rounds;
static pthread_barrier_t meeting;

static void end(int unused) { stop = unused; }

/* No function, which would be the innermost one of both. */
#define WORK(n) for (volatile long i = 0; i < (n); i++) asm volatile("")

__attribute__((noinline)) static void slow(void) { WORK(2000000); }
__attribute__((noinline)) static void quick(void) { WORK(1000000); }
__attribute__((noinline)) void serve(void) { rounds++; }

static void *helper(void *unused) {
  for (;;) {
    pthread_barrier_wait(&meeting);
    quick();
    pthread_barrier_wait(&meeting);
  }
  return unused;
}

static void *worker(void *unused) {
  while (!stop) {
    pthread_barrier_wait(&meeting);
    slow();
    pthread_barrier_wait(&meeting);
    serve();
  }
  return unused;
}

int main(int argc, char **argv) {
  signal(SIGTERM, end);
  pthread_barrier_init(&meeting, NULL, 2);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, worker, NULL);
  pthread_create(&threads[1], NULL, helper, NULL);
  int set = epoll_create1(0);
  while (!stop) {
    struct epoll_event event;
    if (epoll_wait(set, &event, 1, argc > 1 ? atoi(argv[1]) : -1) < 0 && errno == EINTR && !stop)
      interrupted++;
  }
  pthread_join(threads[0], NULL);
  printf("rounds %ld interrupted %ld\n", rounds, interrupted);
  return 0;
}
