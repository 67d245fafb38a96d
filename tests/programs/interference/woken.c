// A thread that is woken waits for the CPU of the one that woke it: both run on one CPU with the same real-time priority, so that the
// first runs on until it sleeps. Exits with 77 where that is not allowed.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TIMES 400

static sem_t posted;

static void compute(long microseconds) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < microseconds);
}

static void *wake(void *at) {
  for (int i = 0; i < TIMES; i++) {
    usleep(200);
    sem_post(&posted);
    compute(150);
  }
  return at;
}

static void *be_woken(void *at) {
  for (int i = 0; i < TIMES; i++) sem_wait(&posted);
  return at;
}

int main(void) {
  cpu_set_t one;
  struct sched_param first = {.sched_priority = 1};
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  // Both threads inherit that.
  if (sched_setaffinity(0, sizeof one, &one) || sched_setscheduler(0, SCHED_FIFO, &first)) return 77;
  sem_init(&posted, 0, 0);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, be_woken, NULL);
  pthread_create(&threads[1], NULL, wake, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
