/* breakpoint_neighbours: what a breakpoint costs a loop beside it, and a visit of it, by the processor's and by the kernel's (uprobe).
 * Built by hand: cc -O1 benches/breakpoint_neighbours.c -o breakpoint_neighbours; as root. */
#define _GNU_SOURCE
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 100
#define VISITS 100000

/* A loop in the first 14 bytes of a block of 64, and room behind it. */
__attribute__((noinline)) static void loop(long rounds) {
  long x = 1;
  __asm__ volatile(".p2align 6\n"
                   "1: imul %2, %0\n add $1, %0\n sub $1, %1\n jne 1b\n"
                   ".globl behind\nbehind:\n"
                   ".fill 160, 1, 0x90\n"
                   : "+r"(x), "+r"(rounds)
                   : "r"(2862933555777941757l));
}
extern char behind[];

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int opened(struct perf_event_attr *attr, int pid, int cpu) {
  int event = (int)syscall(SYS_perf_event_open, attr, pid, cpu, -1, 0);
  if (event < 0) perror("perf_event_open"), exit(1);
  return event;
}

static int hardware(long distance) {
  struct perf_event_attr attr = {.size = sizeof attr, .type = PERF_TYPE_BREAKPOINT, .bp_type = HW_BREAKPOINT_X, .bp_len = 8};
  attr.bp_addr = (uint64_t)behind + distance;
  attr.exclude_kernel = attr.exclude_hv = 1;
  return opened(&attr, 0, -1);
}

static long file_position(const char *at) {
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  unsigned long start, end, position;
  while (maps && fgets(line, sizeof line, maps))
    if (sscanf(line, "%lx-%lx %*s %lx", &start, &end, &position) == 3 && (uint64_t)at >= start && (uint64_t)at < end)
      return (long)((uint64_t)at - start + position);
  exit(1);
}

static int uprobe(void) {
  int kind = 0;
  FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "r");
  if (!file || fscanf(file, "%d", &kind) != 1) exit(1);
  struct perf_event_attr attr = {.size = sizeof attr, .type = kind, .uprobe_path = (uint64_t) "/proc/self/exe"};
  attr.probe_offset = file_position(behind);
  return opened(&attr, getpid(), -1);
}

static void measure(const char *what, long distance, int event) {
  double start = cpu_seconds();
  for (int i = 0; i < ROUNDS; i++) loop(1000000);
  double looped = cpu_seconds();
  for (int i = 0; i < VISITS; i++) loop(1);
  printf("%-8s %4ld bytes behind the loop: %.2f s, a visit %.1f us\n", what, distance, looped - start, (cpu_seconds() - looped) / VISITS * 1e6);
  if (event >= 0) close(event);
}

int main(void) {
  static const long distances[] = {0, 2, 18, 34, 50, 66, 100};
  measure("none", 0, -1);
  for (unsigned i = 0; i < sizeof distances / sizeof *distances; i++) measure("hardware", distances[i], hardware(distances[i]));
  measure("uprobe", 0, uprobe());
  return 0;
}
