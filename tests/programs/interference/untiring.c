// Two threads call leaf() as fast as they can, for the seconds of the argument (1): faster than anybody reads what was recorded of it.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double seconds;

__attribute__((noinline)) static long leaf(long number) {
  __asm__ volatile("" : "+r"(number));
  return number * 3 + 1;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void *body(void *unused) {
  (void)unused;
  long sum = 0;
  for (double end = now() + seconds; now() < end;)
    for (long i = 0; i < 10000; i++) sum += leaf(i);
  return (void *)(intptr_t)sum;
}

int main(int argc, char **argv) {
  seconds = argc > 1 ? atof(argv[1]) : 1;
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, body, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  puts("done");
}
