// A thread that gives a lock back loses its CPU to the thread that it wakes: both run on one CPU, and the one that waits for the lock has the
// higher real-time priority. Exits with 77 where that is not allowed.
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define TIMES 150

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int over;

static void compute(long microseconds) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < microseconds);
}

static void prefer(int priority) {
  struct sched_param own = {.sched_priority = priority};
  if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &own)) exit(77);
}

static void *urgent(void *at) {
  prefer(2);
  for (int i = 0; i < TIMES; i++) {
    usleep(200);
    pthread_mutex_lock(&lock);
    compute(1000);
    pthread_mutex_unlock(&lock);
  }
  over = 1;
  return at;
}

static void *ordinary(void *at) {
  prefer(1);
  while (!over) {
    pthread_mutex_lock(&lock);
    compute(1500);
    pthread_mutex_unlock(&lock);
  }
  return at;
}

int main(void) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(sched_getcpu(), &one);
  if (sched_setaffinity(0, sizeof one, &one)) return 77;
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, urgent, NULL);
  pthread_create(&threads[1], NULL, ordinary, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
