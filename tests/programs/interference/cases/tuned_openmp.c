// openmp: rounds of unequal work, with a barrier that spins; repaired, equal work.
#include <stdio.h>

__attribute__((noinline)) unsigned long compute(long turns) {
  unsigned long product = (unsigned long)turns | 1;
  for (long i = 0; i < turns; i++) {
    product *= 0x9e3779b97f4a7c15u;
    __asm__ volatile("" : "+r"(product));
  }
  return product;
}
#include <omp.h>
int main(int argc, char **argv) {
  int repaired = argc > 1 && argv[1][0] == 'r';
#pragma omp parallel num_threads(2)
  for (int round = 0; round < 6000; round++) {
    compute(repaired ? 60000 : omp_get_thread_num() ? 20000 : 100000);
#pragma omp barrier
  }
  return 0;
}
