// Calls to count, of functions that compilers begin with room for tracers, or with a call of a profiler.
#include <pthread.h>
#include <stdio.h>

#define APART __attribute__((noinline))

APART int leaf(int x) {
  __asm__ volatile("" : "+r"(x));
  return 3 * x + 1;
}

APART int outer(int n) {
  int sum = 0;
  for (int i = 0; i < n; i++) sum += leaf(i);
  return sum;
}

static void *thread(void *unused) {
  long sum = 0;
  for (int i = 0; i < 100; i++) sum += outer(100);
  return (void *)(sum + (long)unused);
}

int main(void) {
  pthread_t threads[2];
  long sum = 0;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, thread, NULL);
  for (int i = 0; i < 2; i++) {
    void *result;
    pthread_join(threads[i], &result);
    sum += (long)result;
  }
  printf("%ld\n", sum);
  return 0;
}
