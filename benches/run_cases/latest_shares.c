// shares: of two threads that meet after each step, one has most of the rows; repaired, as many as the other. latest_shares [repaired]
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>

enum { ROWS = 600, STEPS = 3000 };
static uint32_t rows[ROWS][64];
static pthread_barrier_t step_end;
static int repaired;

__attribute__((noinline)) static void smooth_rows(int begin, int end) {
  for (int row = begin; row < end; row++) {
    uint32_t last = (uint32_t)row;
    for (int at = 0; at < 64; at++) {
      last = (rows[row][at] ^ last >> 3) * 2654435761u + 11;
      rows[row][at] = last;
    }
  }
}

static void *work(void *number) {
  const int share = repaired ? ROWS / 2 : ROWS * 19 / 20;
  for (int step = 0; step < STEPS; step++) {
    if (number) smooth_rows(share, ROWS);
    else smooth_rows(0, share);
    pthread_barrier_wait(&step_end);
  }
  return NULL;
}

int main(int count, char **words) {
  (void)words;
  repaired = count > 1;
  pthread_t threads[2];
  pthread_barrier_init(&step_end, NULL, 2);
  for (intptr_t i = 0; i < 2; i++) pthread_create(&threads[i], NULL, work, (void *)i);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  printf("%u\n", rows[7][9]);
}
