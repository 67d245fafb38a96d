/* Kernels with known counts: `kernels NAME SECONDS` runs the function NAME for about that long, and
   prints how often its innermost block ran and the CPU time that the function took. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL __attribute__((noinline, noclone)) uint64_t
static volatile uint64_t sink;
static char *memory;
static size_t bytes;

static uint64_t random_state = 88172645463325252u;
static uint64_t next_random(void) {
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  return random_state ^= random_state << 17;
}
static void make(size_t size) {
  bytes = size;
  memory = aligned_alloc(4096, size);
  for (size_t i = 0; i < size / 8; i++) ((uint64_t *)memory)[i] = next_random();
}
static void make_chain(size_t size) {
  make(size);
  size_t lines = size / 64;
  uint32_t *order = malloc(lines * 4);
  for (size_t i = 0; i < lines; i++) order[i] = i;
  for (size_t i = lines - 1; i > 0; i--) {
    size_t j = next_random() % i;
    uint32_t t = order[i]; order[i] = order[j]; order[j] = t;
  }
  for (size_t i = 0; i < lines; i++)
    *(char **)(memory + 64 * (size_t)order[i]) = memory + 64 * (size_t)order[(i + 1) % lines];
  free(order);
}
static void chain16k(void) { make_chain(16 << 10); }
static void chain512k(void) { make_chain(512 << 10); }
static void chain8m(void) { make_chain(8 << 20); }
static void chain256m(void) { make_chain((size_t)256 << 20); }
static void make64k(void) { make(64 << 10); }
static void make64m(void) { make(64 << 20); }
static void nothing(void) {}

KERNEL chase(uint64_t n) {
  char *p = memory;
  for (uint64_t i = 0; i < n; i++) p = *(char **)p;
  return (uint64_t)p;
}
KERNEL divide(uint64_t n) {
  uint64_t x = ~0ull;
  for (uint64_t i = 1; i <= n; i++) x = x / ((i & 7) + 3) + (~0ull >> 2);
  return x;
}
KERNEL collatz(uint64_t n) {
  uint64_t steps = 0;
  for (uint64_t i = 1; i <= n; i++)
    for (uint64_t x = (i * 2654435761u & 0xfffff) | 1; x != 1; steps++) x = x & 1 ? 3 * x + 1 : x / 2;
  sink = steps;
  return steps;
}
KERNEL branches(uint64_t n) {
  uint64_t sum = 0, x = 1234567;
  for (uint64_t i = 0; i < n; i++) {
    x ^= x << 13; x ^= x >> 7; x ^= x << 17;
    if (x & 1) sum += x * 7; else { sum ^= i; __asm__ volatile("" : "+r"(sum)); }
  }
  return sum;
}
KERNEL sum(uint64_t n) {
  uint64_t total = 0, *a = (uint64_t *)memory;
  for (uint64_t i = 0; i < n; i++) for (size_t j = 0; j < bytes / 8; j++) { total += a[j]; __asm__ volatile("" : "+r"(total)); }
  return total;
}
KERNEL stream(uint64_t n) {
  double *a = (double *)memory, *b = a + bytes / 16;
  for (uint64_t i = 0; i < n; i++) for (size_t j = 0; j < bytes / 16; j++) { b[j] = a[j] * 3; __asm__ volatile("" ::: "memory"); }
  return b[3];
}
KERNEL gather(uint64_t n) {
  uint64_t total = 0, x = 1;
  for (uint64_t i = 0; i < n; i++) { x = x * 6364136223846793005u + 1; total += ((uint64_t *)memory)[(x >> 33) & (bytes / 8 - 1)]; }
  return total;
}
KERNEL fpchain(uint64_t n) {
  double x = 1;
  for (uint64_t i = 0; i < n; i++) x = x * 0.999999 + 1e-7;
  return x * 1e6;
}
KERNEL matrix(uint64_t n) {
  static double a[96][96], b[96][96], c[96][96];
  for (uint64_t i = 0; i < n; i++)
    for (int y = 0; y < 96; y++) for (int x = 0; x < 96; x++) {
      double s = c[y][x];
      for (int k = 0; k < 96; k++) s += a[y][k] * b[k][x];
      c[y][x] = s;
    }
  return c[3][3];
}
KERNEL crc(uint64_t n) {
  static uint32_t table[256];
  uint32_t c = 1;
  for (uint64_t i = 0; i < n; i++) for (size_t j = 0; j < bytes; j++) c = table[(c ^ memory[j]) & 255] ^ c >> 8;
  return c;
}
KERNEL fib(uint64_t n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
KERNEL hash(uint64_t n) {
  uint32_t *t = (uint32_t *)memory; uint64_t found = 0;
  for (uint64_t i = 0; i < n; i++) {
    uint64_t h = i * 0x9e3779b97f4a7c15u >> 40, left = 8;
    while (left && t[h & (bytes / 4 - 1)] & 3) { h++; left--; }
    found += left;
  }
  return found;
}
KERNEL search(uint64_t n) {
  uint64_t *a = (uint64_t *)memory, found = 0;
  for (uint64_t i = 0; i < n; i++) {
    size_t low = 0, high = bytes / 8; uint64_t key = i * 0x9e3779b97f4a7c15u;
    while (low < high) { size_t middle = (low + high) / 2; if (a[middle] < key) low = middle + 1; else high = middle; }
    found += low;
  }
  return found;
}
KERNEL sieve(uint64_t n) {
  uint64_t count = 0;
  for (uint64_t i = 0; i < n; i++) {
    memset(memory, 0, bytes);
    for (size_t p = 2; p * p < bytes; p++) if (!memory[p]) for (size_t m = p * p; m < bytes; m += p) memory[m] = 1;
    count += memory[97];
  }
  return count;
}
KERNEL insertion(uint64_t n) {
  uint64_t moved = 0; static uint32_t a[256];
  for (uint64_t i = 0; i < n; i++) {
    for (int k = 0; k < 256; k++) a[k] = (uint32_t)(k * 2654435761u) ^ (uint32_t)i;
    for (int k = 1; k < 256; k++) { uint32_t v = a[k]; int j = k; while (j > 0 && a[j - 1] > v) { a[j] = a[j - 1]; j--; moved++; } a[j] = v; }
  }
  return moved;
}
KERNEL popcount(uint64_t n) {
  uint64_t bits = 0;
  for (uint64_t i = 0; i < n; i++) for (uint64_t x = i | 0xf0f0; x; x &= x - 1) bits++;
  return bits;
}
KERNEL gcd(uint64_t n) {
  uint64_t total = 0;
  for (uint64_t i = 1; i <= n; i++) { uint32_t a = (uint32_t)(i * 2654435761u) | 1, b = 0x9e3779b9; while (b) { uint32_t t = a % b; a = b; b = t; } total += a; }
  return total;
}
KERNEL store_forward(uint64_t n) {
  volatile uint64_t slot = 0;
  for (uint64_t i = 0; i < n; i++) slot = slot + i;
  return slot;
}
static uint64_t (*targets[4])(uint64_t);
__attribute__((noinline)) static uint64_t t0(uint64_t x) { return x + 1; }
__attribute__((noinline)) static uint64_t t1(uint64_t x) { return x ^ 5; }
__attribute__((noinline)) static uint64_t t2(uint64_t x) { return x * 3; }
__attribute__((noinline)) static uint64_t t3(uint64_t x) { return x >> 1; }
static void make_targets(void) { targets[0] = t0; targets[1] = t1; targets[2] = t2; targets[3] = t3; }
KERNEL indirect(uint64_t n) {
  uint64_t x = 7, r = 1;
  for (uint64_t i = 0; i < n; i++) { r = r * 6364136223846793005u + 1; x = targets[r >> 62](x); }
  return x;
}
KERNEL text(uint64_t n) {
  uint64_t words = 0;
  for (uint64_t i = 0; i < n; i++) { int in = 0; for (size_t j = 0; j < bytes; j++) { int letter = memory[j] > 32; words += letter & !in; in = letter; } }
  return words;
}
KERNEL locked(uint64_t n) {
  static uint64_t shared;
  for (uint64_t i = 0; i < n; i++) __atomic_fetch_add(&shared, 1, __ATOMIC_SEQ_CST);
  return shared;
}
KERNEL machine(uint64_t n) {
  uint64_t a = 0, pc = 0;
  for (uint64_t i = 0; i < n; i++) {
    switch (memory[pc & (bytes - 1)] & 7) {
      case 0: a += pc; break; case 1: a ^= i; break; case 2: a <<= 1; break; case 3: a -= 3; break;
      case 4: a *= 5; break; case 5: a >>= 2; break; case 6: pc += a & 3; break; default: a = ~a;
    }
    pc++;
  }
  return a;
}
KERNEL polynomial(uint64_t n) {
  double s = 0, x = 0.5;
  for (uint64_t i = 0; i < n; i++) { double p = 1; for (int k = 0; k < 12; k++) { p = p * x + k; __asm__ volatile("" : "+x"(p)); } s += p; x += 1e-9; }
  return s;
}

struct kernel { const char *name, *procedure; uint64_t (*run)(uint64_t); void (*prepare)(void); uint64_t first; };
static struct kernel kernels[] = {
  {"chase16k", "chase", chase, chain16k, 1 << 20}, {"chase512k", "chase", chase, chain512k, 1 << 20},
  {"chase8m", "chase", chase, chain8m, 1 << 18}, {"chase256m", "chase", chase, chain256m, 1 << 16},
  {"divide", 0, divide, nothing, 1 << 20}, {"branches", 0, branches, nothing, 1 << 20},
  {"sum", 0, sum, make64k, 1 << 8}, {"gather", 0, gather, make64m, 1 << 18},
  {"fpchain", 0, fpchain, nothing, 1 << 20}, {"matrix", 0, matrix, nothing, 4},
  {"hash", 0, hash, make64m, 1 << 16}, {"insertion", 0, insertion, nothing, 16},
  {"gcd", 0, gcd, nothing, 1 << 14}, {"indirect", 0, indirect, make_targets, 1 << 18},
  {"text", 0, text, make64k, 16},
  /* Looked at once, after all choices. */
  {"collatz", 0, collatz, nothing, 1 << 10}, {"stream", 0, stream, make64m, 1},
  {"crc", 0, crc, make64k, 16}, {"fib", 0, fib, nothing, 27}, {"search", 0, search, make64m, 1 << 12},
  {"sieve", 0, sieve, make64k, 16}, {"popcount", 0, popcount, nothing, 1 << 14},
  {"store_forward", 0, store_forward, nothing, 1 << 18}, {"locked", 0, locked, nothing, 1 << 16},
  {"machine", 0, machine, make64k, 1 << 16}, {"polynomial", 0, polynomial, nothing, 1 << 14},
};
static double cpu(void) { struct timespec t; clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t); return t.tv_sec + t.tv_nsec * 1e-9; }
int main(int argc, char **argv) {
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    struct kernel *k = &kernels[i];
    if (argc < 2) { printf("%s %s\n", k->name, k->procedure ? k->procedure : k->name); continue; }
    if (strcmp(argv[1], k->name)) continue;
    k->prepare();
    double seconds = argc > 2 ? atof(argv[2]) : 5, spent = 0;
    uint64_t n = k->first, work = 0;
    if (k->run == fib) {
      while (spent < seconds) { double t = cpu(); sink = k->run(n); spent += cpu() - t; work++; }
    } else {
      while (spent < seconds) {
        double t = cpu();
        sink = k->run(n);
        t = cpu() - t;
        spent += t, work += n;
        /* Few calls, of a quarter of the time: a count of calls alone gives no scale. */
        if (t < seconds / 8) n *= 2;
      }
    }
    printf("%s n %lu seconds %.6f\n", k->name, (unsigned long)work, spent);
    return 0;
  }
  return argc > 1;
}
