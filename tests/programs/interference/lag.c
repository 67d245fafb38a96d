// What the process that launched it misses: lag KIND, which prints how often bump() was called and how many nanoseconds that took.
//   stop: two threads call it for a second, then for two in which that process is stopped, then for half a second
//   end: the same, but that process goes on only after this one has ended
//   short: 400 threads one after another call it 25 times each
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct {
  volatile long count;
  long calls;
  char apart[240];
} threads[2] __attribute__((aligned(256)));
static volatile int over;

/* Long enough that two seconds of it fit into the buffers. */
__attribute__((noinline)) static void bump(volatile long *count) {
  for (int i = 0; i < 400; i++) __atomic_fetch_add(count, 1, __ATOMIC_RELAXED);
}

static void *until_over(void *at) {
  long calls = 0;
  for (; !over; calls++) bump(&threads[(intptr_t)at].count);
  threads[(intptr_t)at].calls = calls;
  return NULL;
}

static void *some(void *at) {
  (void)at;
  for (int i = 0; i < 25; i++, threads[0].calls++) bump(&threads[0].count);
  return NULL;
}

static long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

/* Somebody else who lets it go on. */
static void later(pid_t stopped) {
  if (fork() == 0) {
    fclose(stdout);
    fclose(stderr);
    sleep(2);
    kill(stopped, SIGCONT);
    _exit(0);
  }
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "stop";
  long start = now();
  pthread_t ids[2];
  if (!strcmp(kind, "short")) {
    for (int i = 0; i < 400; i++) {
      pthread_create(&ids[0], NULL, some, NULL);
      pthread_join(ids[0], NULL);
    }
  } else {
    pid_t launcher = getppid();
    for (intptr_t i = 0; i < 2; i++) pthread_create(&ids[i], NULL, until_over, (void *)i);
    sleep(1);
    kill(launcher, SIGSTOP);
    if (!strcmp(kind, "end")) later(launcher);
    else {
      sleep(2);
      kill(launcher, SIGCONT);
    }
    usleep(500000);
    over = 1;
    for (int i = 0; i < 2; i++) pthread_join(ids[i], NULL);
  }
  printf("%ld %ld\n", threads[0].calls + threads[1].calls, now() - start);
  return 0;
}
