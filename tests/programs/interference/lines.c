/* Two threads whose functions share cache lines, and two that share none: `lines SECONDS`. `count_beside` counts in neighbouring
 * parts of the variable `counts`, `count_all` in one place on the heap; `count_apart` counts in lines of its own, and
 * `read_settings` only reads what both threads have. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STEPS = 20000 };

static volatile long counts[8] __attribute__((aligned(64)));
static volatile long apart[2][64] __attribute__((aligned(64)));
static volatile long settings[8] __attribute__((aligned(64))) = {3};
static atomic_long *all;
static double seconds;

__attribute__((noinline)) static void count_beside(long id) {
  for (int i = 0; i < STEPS; i++) counts[id]++;
}

__attribute__((noinline)) static void count_all(void) {
  for (int i = 0; i < STEPS; i++) atomic_fetch_add(all, 1);
}

__attribute__((noinline)) static void count_apart(long id) {
  for (int i = 0; i < STEPS; i++) apart[id][0]++;
}

__attribute__((noinline)) static long read_settings(void) {
  long sum = 0;
  for (int i = 0; i < STEPS; i++) sum += settings[0];
  return sum;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + 1e-9 * time.tv_nsec;
}

static void *work(void *id) {
  long sum = 0;
  for (double end = now() + seconds; now() < end;) {
    count_beside((long)id);
    count_all();
    count_apart((long)id);
    sum += read_settings();
  }
  return (void *)sum;
}

int main(int argc, char **argv) {
  pthread_t threads[2];
  seconds = argc > 1 ? atof(argv[1]) : 1;
  all = calloc(64, sizeof *all);
  for (long id = 0; id < 2; id++) pthread_create(&threads[id], NULL, work, (void *)id);
  for (int id = 0; id < 2; id++) pthread_join(threads[id], NULL);
  printf("%ld\n", counts[0] + counts[1] + atomic_load(all) + apart[0][0]);
}
