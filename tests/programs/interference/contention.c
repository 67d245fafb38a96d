// The micro-benchmarks of the ISPOT paper, Listings 1 to 3: contention KIND DELAY THREADS ITERATIONS [FILE].
//
// The traced blocks are acquire (KIND lock), acquire_spinning (spin), share (sharing, and apart, where
// nothing is shared) and read_block (disk). All threads stop when the first has done its iterations, so that
// the contention is the same all the time. With REAL_TIME in the environment each thread has a CPU of its own in
// the real-time class.
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define LINE __attribute__((aligned(128)))

static long delay, iterations;
static const char *file;
static LINE pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static LINE volatile int spin;
static LINE volatile long value;
static LINE struct {
  volatile long x, y;
} data;
static LINE volatile long far_away;
static LINE volatile int started, over;
static pthread_barrier_t start;

APART void compute(long turns) {
  for (volatile long i = 0; i < turns; i++)
    ;
}

APART void acquire(void) { pthread_mutex_lock(&lock); }

APART void acquire_spinning(void) {
  while (__atomic_exchange_n(&spin, 1, __ATOMIC_ACQUIRE))
    while (spin) __builtin_ia32_pause();
}

/* Fifty increments: of one alone the store buffer hides what it waits for. */
APART void share(volatile long *mine) {
  for (int i = 0; i < 50; i++) ++*mine;
}

APART void read_block(int descriptor, void *to) {
  if (read(descriptor, to, 512) < 512) lseek(descriptor, 0, SEEK_SET);
}

static void lock_thread(long number) {
  (void)number;
  for (long i = 0; i < iterations && !over; i++) {
    compute(delay);
    acquire();
    value++;
    pthread_mutex_unlock(&lock);
  }
}

static void spin_thread(long number) {
  (void)number;
  for (long i = 0; i < iterations && !over; i++) {
    compute(delay);
    acquire_spinning();
    value++;
    __atomic_store_n(&spin, 0, __ATOMIC_RELEASE);
  }
}

static void disturb(volatile long *theirs) {
  while (!over) {
    started = 1;
    ++*theirs;
    compute(delay);
  }
}

static void be_disturbed(void) {
  while (!started)
    ;
  for (long i = 0; i < iterations; i++) share(&data.x);
}

static void sharing_thread(long number) { number ? disturb(&data.y) : be_disturbed(); }

static void apart_thread(long number) { number ? disturb(&far_away) : be_disturbed(); }

/* The delay, in microseconds here, is slept: the threads are more than the CPUs. */
static void disk_thread(long number) {
  int descriptor = open(file, O_RDONLY | O_DIRECT);
  void *to;
  if (descriptor < 0 || posix_memalign(&to, 4096, 4096)) {
    perror(file);
    exit(2);
  }
  lseek(descriptor, number << 20, SEEK_SET);
  struct timespec pause = {delay / 1000000, delay % 1000000 * 1000};
  for (long i = 0; i < iterations && !over; i++) {
    if (delay) nanosleep(&pause, NULL);
    read_block(descriptor, to);
  }
}

static const struct {
  const char *name;
  void (*body)(long);
} kinds[] = {{"lock", lock_thread},   {"spin", spin_thread}, {"sharing", sharing_thread},
             {"apart", apart_thread}, {"disk", disk_thread}, {NULL, NULL}};
static void (*body)(long);

static void *thread(void *number) {
  if (getenv("REAL_TIME")) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET((intptr_t)number % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    struct sched_param priority = {.sched_priority = 50};
    if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) ||
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority)) {
      fprintf(stderr, "contention: no right to real-time scheduling\n");
      exit(2);
    }
  }
  pthread_barrier_wait(&start);
  body((intptr_t)number);
  over = 1;
  return NULL;
}

int main(int argc, char **argv) {
  if (argc < 5) return 2;
  for (int i = 0; kinds[i].name; i++)
    if (!strcmp(argv[1], kinds[i].name)) body = kinds[i].body;
  delay = atol(argv[2]);
  int threads = atoi(argv[3]);
  iterations = atol(argv[4]);
  file = argc > 5 ? argv[5] : argv[0];
  if (!body || threads < 1 || threads > 64) return 2;
  pthread_t all[64];
  pthread_barrier_init(&start, NULL, threads);
  for (intptr_t i = 0; i < threads; i++) pthread_create(&all[i], NULL, thread, (void *)i);
  for (int i = 0; i < threads; i++) pthread_join(all[i], NULL);
  return 0;
}
