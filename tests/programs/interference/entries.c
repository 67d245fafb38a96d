// How long the entries of calls take that are recorded: prints how many of a million were, and how many of these were
// entered faster than the call after them. A recorded call returns into the code in front of it, not into main.
#include <stdint.h>
#include <stdio.h>
#include <x86intrin.h>

static uintptr_t plain;
static unsigned long took;
static int recorded;

__attribute__((noinline)) static void work(unsigned long before) {
  took = __rdtsc() - before;
  uintptr_t from = (uintptr_t)__builtin_return_address(0);
  recorded = from - plain > 4096;
  __asm__ volatile("" ::: "memory");
}

int main(void) {
  plain = (uintptr_t)main;
  long all = 0, faster = 0;
  unsigned long before = 0;
  int last = 0;
  for (int i = 0; i < 1000000; i++) {
    work(__rdtsc());
    if (last) all++, faster += before < took;
    before = took;
    last = recorded;
  }
  printf("%ld %ld\n", all, faster);
  return 0;
}
