/* Built with -O2 and without frame pointers; the hot line spends its time in the C library, behind
 * functions that are inlined. */
#include "causal.h"

static char text[1 << 16];

static inline long count(long n) {
  long sum = 0;
  for (long i = 0; i < n; i++) sum += (long)strlen(text + (i & 63)); /* line: count */
  return sum;
}

static inline long compare(long n) {
  static char other[1 << 16];
  memcpy(other, text, sizeof other);
  long sum = 0;
  for (long i = 0; i < n; i++) sum += memcmp(other + (i & 63), text + (i & 63), sizeof other - 64); /* line: compare */
  return sum;
}

static void *worker(void *unused) {
  memset(text, 'x', sizeof text - 1);
  long sum = 0;
  for (long n = work("count", 900), m = work("compare", 300); !atomic_load(&stop);) {
    sum += count(n) + compare(m);
    VITALFEW_PROGRESS("text");
    progress();
  }
  return sum ? unused : NULL;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pthread_t thread;
  pthread_create(&thread, NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
