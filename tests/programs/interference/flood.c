// More executions than a small buffer holds, a known number of them: two threads call leaf() a million times each. With an argument the
// process that launched it is stopped meanwhile, and goes on before the last CALM of them, which take their time.
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define CALLS 1000000
#define CALM 20000

__attribute__((noinline)) static long leaf(long number) {
  __asm__ volatile("" : "+r"(number));
  return number * 3 + 1;
}

static pthread_barrier_t held;
static int hold;

static void *body(void *at) {
  long sum = 0;
  for (long i = 0; i < CALLS; i++) {
    if (i == CALLS - CALM) {
      pthread_barrier_wait(&held);
      if (hold && at) kill(getppid(), SIGCONT);
    }
    if (i >= CALLS - CALM && i % 100 == 0) usleep(500);
    sum += leaf(i);
  }
  return (void *)(intptr_t)sum;
}

int main(int argc, char **argv) {
  (void)argv;
  hold = argc > 1;
  pthread_t threads[2];
  void *sums[2];
  pthread_barrier_init(&held, NULL, 2);
  if (hold) kill(getppid(), SIGSTOP);
  for (intptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, body, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], &sums[i]);
  printf("%ld %ld\n", (long)(intptr_t)sums[0], (long)(intptr_t)sums[1]);
  return 7;
}
