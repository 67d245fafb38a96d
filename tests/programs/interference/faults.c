// A known number of page faults: two threads call touch() CALLS times each, in PHASES phases by turns; it reaches PAGES pages that are not
// there in odd phases, and the same pages, which are, in even ones.
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define APART __attribute__((noinline))
#define CALLS 2000
#define PHASES 10
#define PAGES 8
#define PAGE 4096

/* The same work besides. */
APART long touch(volatile char *pages) {
  unsigned long product = 1;
  for (long page = 0; page < PAGES; page++) {
    for (int i = 0; i < 300; i++) {
      product *= 0x9e3779b97f4a7c15u;
      __asm__ volatile("" : "+r"(product));
    }
    pages[page * PAGE] = 1;
  }
  return (long)product;
}

static void *body(void *unused) {
  char *pages = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED || madvise(pages, PAGES * PAGE, MADV_NOHUGEPAGE)) exit(2);
  for (long call = 0; call < CALLS; call++) {
    if (call / (CALLS / PHASES) % 2 && madvise(pages, PAGES * PAGE, MADV_DONTNEED)) exit(2);
    touch(pages);
  }
  return unused;
}

int main(void) {
  pthread_t threads[2];
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, body, NULL);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return 0;
}
