// What a call costs: calls REPEATS CALLS prints the least and the median CPU time of one, in nanoseconds, of
// a function, and of the same between two time stamps.
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <x86intrin.h>

__attribute__((noinline)) long called(long x) {
  __asm__ volatile("" : "+r"(x));
  x ^= x >> 7;
  return 3 * x + 1;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return time.tv_sec * 1e9 + time.tv_nsec;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv) {
  int repeats = argc > 1 ? atoi(argv[1]) : 30;
  long calls = argc > 2 ? atol(argv[2]) : 1000000, x = 1;
  int stamped = argc > 3;
  unsigned long sum = 0;
  double *costs = calloc(repeats, sizeof *costs);
  for (int r = 0; r < repeats; r++) {
    double start = now();
    if (stamped) {
      for (long i = 0; i < calls; i++) {
        unsigned long enter = __rdtsc();
        x = called(x);
        sum += __rdtsc() - enter;
      }
    } else {
      for (long i = 0; i < calls; i++) x = called(x);
    }
    costs[r] = (now() - start) / calls;
  }
  qsort(costs, repeats, sizeof *costs, compare);
  printf("%.2f %.2f\n", costs[0], costs[repeats / 2]);
  return x == 42 && sum == 42;
}
