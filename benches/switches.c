/* switches TIMERS ROUNDS: what a switch between two threads on one processor takes. They pass a byte to and fro; with TIMERS 1 each has
 * a timer of a millisecond of its own CPU time, as a profiler's that samples threads. Prints microseconds a round, of two switches. */
#define _GNU_SOURCE
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static int there[2], back[2], timers;
static long rounds;

static void begin(void) {
  struct perf_event_attr event = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof event, .config = PERF_COUNT_SW_TASK_CLOCK, .sample_period = 1000000, .exclude_kernel = 1};
  if (timers && syscall(SYS_perf_event_open, &event, 0, -1, -1, 0) < 0) perror("perf_event_open"), exit(1);
}

static void pass(int from, int to) {
  char byte = 0;
  if (from >= 0 && read(from, &byte, 1) != 1) exit(1);
  if (to >= 0 && write(to, &byte, 1) != 1) exit(1);
}

static void *answer(void *unused) {
  begin();
  for (long i = 0; i < rounds; i++) pass(there[0], back[1]);
  return unused;
}

int main(int argc, char **argv) {
  if (argc < 3) return 2;
  timers = atoi(argv[1]), rounds = atol(argv[2]);
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  if (sched_setaffinity(0, sizeof one, &one) || pipe(there) || pipe(back)) return 1;
  begin();
  pthread_t thread;
  pthread_create(&thread, NULL, answer, NULL);
  struct timespec first, last;
  clock_gettime(CLOCK_MONOTONIC, &first);
  for (long i = 0; i < rounds; i++) pass(-1, there[1]), pass(back[0], -1);
  clock_gettime(CLOCK_MONOTONIC, &last);
  printf("%.2f\n", ((last.tv_sec - first.tv_sec) * 1e6 + (last.tv_nsec - first.tv_nsec) / 1e3) / rounds);
}
