/* No progress point: two functions that are called by turns, 250 times a second, for SECONDS seconds of work.
 *
 *     unmarked [SECONDS]
 *
 * Three quarters of the time are in heavy(), one is in light(). */
#include <stdlib.h>

#define WORK(n)                                                   \
  for (long left = (n); left > 0; left--) {                       \
    x = x * 2862933555777941757l + 1;                             \
    __asm__ volatile("" : "+r"(x));                               \
  }

__attribute__((noinline)) static long heavy(long x) {
  WORK(3000000);
  return x;
}

__attribute__((noinline)) static long light(long x) {
  WORK(1000000);
  return x;
}

int main(int argc, char **argv) {
  long rounds = (long)((argc > 1 ? atof(argv[1]) : 10) * 250), x = 1;
  for (long round = 0; round < rounds; round++) x = light(heavy(x));
  return x == 42;
}
