/* Runs in the kernel for two thirds of its time: it copies what a device hands out, in a system call, and touches pages that it has given
 * back, each of which is a page fault. */
#include "causal.h"
#include <fcntl.h>
#include <sys/mman.h>

enum { LARGEST = 64 << 20, PAGE = 4096 };

int main(int argc, char **argv) {
  setup(argc, argv);
  long bytes = work("copy", 30 << 20), pages = work("touch", 2500), n = work("compute", 2000000);
  int device = open("/dev/zero", O_RDONLY);
  char *to = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  char *lent = mmap(NULL, LARGEST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (device < 0 || to == MAP_FAILED || lent == MAP_FAILED) return 1;
  madvise(lent, LARGEST, MADV_NOHUGEPAGE);
  memset(to, 1, LARGEST);
  while (now() - started < knob_seconds) {
    if (read(device, to, bytes) < 0) return 1;                    /* line: copy */
    for (long i = 0; i < pages; i++) lent[i * PAGE] = (char)i;    /* line: touch */
    madvise(lent, LARGEST, MADV_DONTNEED);
    WORK(n); /* line: compute */
    VITALFEW_PROGRESS("round");
    progress();
  }
  return finish();
}
