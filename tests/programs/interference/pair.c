/* Two threads that compute and never wait for each other, the first of them the program's main thread.
   "hog": another program that computes for as long as it is left. */
#include <pthread.h>
#include <string.h>

enum { STEPS = 12000, TURNS = 60000 };

static volatile unsigned long sink;

__attribute__((noinline)) unsigned long step(unsigned long seed) {
  for (int turn = 0; turn < TURNS; turn++) seed = seed * 6364136223846793005ul + 1442695040888963407ul;
  return seed;
}

static void *compute(void *seed) {
  unsigned long sum = (unsigned long)seed;
  for (int at = 0; at < STEPS; at++) sum += step(sum);
  sink = sum;
  return 0;
}

int main(int count, char **words) {
  while (count > 1 && !strcmp(words[1], "hog")) sink = step(sink);
  pthread_t other;
  pthread_create(&other, 0, compute, (void *)1);
  compute((void *)2);
  pthread_join(other, 0);
  return 0;
}
