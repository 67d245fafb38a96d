/* frames: each picture gets memory of its own from the system and gives it back; repaired, one is used again. blind_frames [repaired] */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum { PIXELS = 1 << 22 };

static unsigned char *new_frame(void) {
  unsigned char *frame = mmap(NULL, PIXELS, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (frame == MAP_FAILED) exit(1);
  return frame;
}

__attribute__((noinline)) static void draw_frame(unsigned char *frame, int number) {
  for (int at = 0; at < PIXELS; at += 256) frame[at] = (unsigned char)((at >> 8) * number);
}

__attribute__((noinline)) static unsigned check_frame(const unsigned char *frame) {
  unsigned sum = 0;
  for (int at = 0; at < PIXELS; at += 256) sum = sum * 31 + frame[at];
  return sum;
}

int main(int count, char **words) {
  (void)words;
  unsigned sum = 0;
  unsigned char *kept = count > 1 ? new_frame() : NULL;
  for (int number = 0; number < 700; number++) {
    unsigned char *frame = kept ? kept : new_frame();
    draw_frame(frame, number);
    sum += check_frame(frame);
    if (!kept) munmap(frame, PIXELS);
  }
  printf("%u\n", sum);
}
