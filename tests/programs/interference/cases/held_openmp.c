// openmp: a loop whose last turns take longest, shared out in halves; repaired, turn by turn.
#include <string.h>

__attribute__((noinline)) unsigned long digest(unsigned long seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}
int main(int argc, char **argv) {
  int repaired = argc > 1;
  unsigned long sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
  for (int round = 0; round < 800; round++) {
    if (repaired) {
#pragma omp for schedule(dynamic, 1)
      for (int i = 0; i < 16; i++) sum += digest(i, i * 200);
    } else {
#pragma omp for schedule(static)
      for (int i = 0; i < 16; i++) sum += digest(i, i * 200);
    }
  }
  return sum == 1;
}
