// The micro-benchmarks of the ISPOT paper, Listings 1 to 3: contention KIND DELAY THREADS ITERATIONS [FILE].
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline))

static long delay, iterations;
static const char *file;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile int spin;
static volatile long value;
static struct {
  volatile long x, y;
} data __attribute__((aligned(128)));
static pthread_barrier_t start;

APART void compute(long turns) {
  for (volatile long i = 0; i < turns; i++)
    ;
}

APART void lock_section(void) {
  pthread_mutex_lock(&lock);
  value++;
  pthread_mutex_unlock(&lock);
}

APART void spin_section(void) {
  while (__atomic_exchange_n(&spin, 1, __ATOMIC_ACQUIRE))
    while (spin) __builtin_ia32_pause();
  value++;
  __atomic_store_n(&spin, 0, __ATOMIC_RELEASE);
}

/* Fifty increments: of one alone the store buffer hides what it waits for. */
APART void share(volatile long *mine) {
  for (int i = 0; i < 50; i++) ++*mine;
}

APART void read_block(int descriptor, void *to) {
  if (read(descriptor, to, 512) < 512) lseek(descriptor, 0, SEEK_SET);
}

static void *lock_thread(void *number) {
  pthread_barrier_wait(&start);
  for (long i = 0; i < iterations; i++) {
    compute(delay);
    lock_section();
  }
  return number;
}

static void *spin_thread(void *number) {
  pthread_barrier_wait(&start);
  for (long i = 0; i < iterations; i++) {
    compute(delay);
    spin_section();
  }
  return number;
}

static volatile int over;
static void *sharing_thread(void *number) {
  pthread_barrier_wait(&start);
  if (number) {
    while (!over) {
      share(&data.y);
      compute(delay);
    }
  } else {
    for (long i = 0; i < iterations; i++) share(&data.x);
    over = 1;
  }
  return number;
}

static void *disk_thread(void *number) {
  int descriptor = open(file, O_RDONLY | O_DIRECT);
  void *to;
  if (descriptor < 0 || posix_memalign(&to, 4096, 4096)) {
    perror(file);
    exit(2);
  }
  lseek(descriptor, (long)(intptr_t)number << 20, SEEK_SET);
  pthread_barrier_wait(&start);
  for (long i = 0; i < iterations; i++) {
    compute(delay);
    read_block(descriptor, to);
  }
  return number;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  void *(*body)(void *) = !strcmp(argv[1], "lock")      ? lock_thread
                          : !strcmp(argv[1], "spin")    ? spin_thread
                          : !strcmp(argv[1], "sharing") ? sharing_thread
                                                        : disk_thread;
  delay = atol(argv[2]);
  int threads = atoi(argv[3]);
  iterations = atol(argv[4]);
  file = argc > 5 ? argv[5] : argv[0];
  if (threads < 1 || threads > 64) return 2;
  pthread_t all[64];
  pthread_barrier_init(&start, NULL, threads);
  for (intptr_t i = 0; i < threads; i++) pthread_create(&all[i], NULL, body, (void *)i);
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  return 0;
}
