/* What the programs of this directory have in common: the knob that really speeds a line up, work of a
 * known length, and the true rate.
 *
 *     program [LINE [PERCENT [SECONDS]]]
 *
 * LINE is one of the names in the program's comments `line: NAME`; its work is PERCENT less. Prints the
 * visits a second of its progress point, or the mean latency in microseconds. */
#ifndef CAUSAL_H
#define CAUSAL_H

#include "../../../include/vitalfew.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef __cplusplus
#include <atomic>
using std::atomic_int, std::atomic_long, std::memory_order_relaxed;
#else
#include <stdatomic.h>
#endif

static const char *knob_line = "";
static long knob_percent;
static double knob_seconds = 10;
static atomic_int stop;
static atomic_long visits;
static double started;

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void setup(int argc, char **argv) {
  if (argc > 1) knob_line = argv[1];
  if (argc > 2) knob_percent = atol(argv[2]);
  if (argc > 3) knob_seconds = atof(argv[3]);
  started = now();
}

/* How much work the line of this name has, of `n`. */
static long work(const char *line, long n) {
  return strcmp(line, knob_line) == 0 ? n * (100 - knob_percent) / 100 : n;
}

/* A chain of `n` multiplications, each of which waits for the one before: about n ns, on the line
 * where it is written. */
#define WORK(n)                                                   \
  for (long left = (n), x = 1; left > 0; left--) {                \
    x = x * 2862933555777941757l + 1;                             \
    __asm__ volatile("" : "+r"(x));                               \
  }

static inline void progress(void) { atomic_fetch_add_explicit(&visits, 1, memory_order_relaxed); }

/* Lets the threads run for the time that was asked for. */
static inline void run_for_a_while(void) {
  while (now() - started < knob_seconds) usleep(10000);
  atomic_store(&stop, 1);
}

static inline int finish(void) {
  printf("rate %.4f\n", (double)atomic_load(&visits) / (now() - started));
  fflush(stdout);
  _exit(0); /* Threads may still wait for each other. */
}

#endif
