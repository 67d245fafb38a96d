// Processes of one CPU, the higher their real-time priority the sooner: `slices long` computes for 3 ms, then sleeps; `slices brief` runs
// for a moment after each of these times; `slices` (a single thread) has what is left. Exits with 77 where that is not allowed.
#define _GNU_SOURCE
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static void compute(long microseconds) {
  struct timespec from, now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
  do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  while ((now.tv_sec - from.tv_sec) * 1000000 + (now.tv_nsec - from.tv_nsec) / 1000 < microseconds);
}

__attribute__((noinline)) void step(void) {
  compute(500);
  __asm__ volatile("");
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "";
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  struct sched_param own = {.sched_priority = !strcmp(kind, "long") ? 3 : !strcmp(kind, "brief") ? 2 : 1};
  if (sched_setaffinity(0, sizeof one, &one) || sched_setscheduler(0, SCHED_FIFO, &own)) return 77;
  if (!*kind) {
    for (int i = 0; i < 1000; i++) step();
    return 0;
  }
  // Nobody else gets this CPU from them: they end by themselves.
  prctl(PR_SET_PDEATHSIG, 9);
  alarm(60);
  for (;;) {
    compute(!strcmp(kind, "long") ? 3000 : 30);
    usleep(!strcmp(kind, "long") ? 2000 : 500);
  }
}
