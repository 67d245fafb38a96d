// One known cause of interference: causes KIND [repaired]. With REAL_TIME in the environment each thread of lock and
// sharing has a CPU of its own in the real-time class (for less than a second).
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
#define THREADS 2

static int repaired;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier, start;
static volatile long total;
static long own[THREADS * 32];
static struct {
  volatile long counts[64];
} shared __attribute__((aligned(128)));
static int jobs[2];

/* A chain of multiplications takes as long whatever else runs on the other half of its core, of which a virtual machine
   knows nothing. The throughput of independent instructions is shared: alone on the machine, a thread with an empty loop here took
   0.63 or 1.4 us by turns. */
static inline unsigned long multiply(unsigned long product, long times) {
  for (long i = 0; i < times; i++) {
    product *= 0x9e3779b97f4a7c15u;
    __asm__ volatile("" : "+r"(product));
  }
  return product;
}
APART void compute(long turns) { multiply((unsigned long)turns | 1, turns / 3); }

/* lock: the section is most of the work, and so long that the steps of the time-stamp counter are nothing beside it; repaired,
   each thread counts for itself. */
APART void count(long number) {
  if (repaired) {
    compute(6000);
    own[number * 32]++;
    return;
  }
  pthread_mutex_lock(&lock);
  compute(6000);
  total++;
  pthread_mutex_unlock(&lock);
}

/* barrier: the first thread has three times the work of the other; repaired, each takes
   the next piece of it, and they meet at the end. */
#define ROUNDS 400
#define PIECES 40
static long taken[ROUNDS];
APART void meet(void) { pthread_barrier_wait(&barrier); }

/* sharing: the counters of the threads lie in one cache line; repaired, in two.
   The increments are atomic: of others the store buffer hides what they wait for. How long an atomic increment of a line of one's own
   takes varies, too; between two of them are eight multiplications, which take longer and always as long, and hide it. Eight take so long
   that the steps of the time-stamp counter are nothing beside them. */
APART void bump(long number) {
  volatile long *mine = &shared.counts[repaired ? number * 32 : number];
  unsigned long product = 1;
  for (int i = 0; i < 300; i++) {
    product = multiply(product, 8);
    __atomic_fetch_add(mine, 1, __ATOMIC_RELAXED);
  }
}

/* disk: what is written has to reach the disk each time. */
APART void keep(int file, const char *record) {
  if (write(file, record, 512) != 512) exit(2);
  if (!repaired) fdatasync(file);
}

/* pool: workers wait for jobs in a pipe that is filled slowly; repaired, the jobs are there. */
APART int take(void) {
  char job;
  return read(jobs[0], &job, 1) == 1;
}

/* How long the threads bumped, by their own clock: what is found is compared with it. */
#define BUMPS 20000
static long bumping_ns[THREADS];
static void bump_often(long number) {
  struct timespec begin, end;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (int i = 0; i < BUMPS; i++) bump(number);
  clock_gettime(CLOCK_MONOTONIC, &end);
  bumping_ns[number] = (end.tv_sec - begin.tv_sec) * 1000000000 + end.tv_nsec - begin.tv_nsec;
}

static const char *kind;
static void *body(void *at) {
  long number = (long)(intptr_t)at;
  if (getenv("REAL_TIME")) {
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    CPU_SET(number % sysconf(_SC_NPROCESSORS_ONLN), &cpus);
    struct sched_param priority = {.sched_priority = 50};
    if (pthread_setaffinity_np(pthread_self(), sizeof cpus, &cpus) ||
        pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority))
      exit(3);
  }
  pthread_barrier_wait(&start);
  if (!strcmp(kind, "lock")) {
    for (int i = 0; i < 40000; i++) count(number);
  } else if (!strcmp(kind, "barrier")) {
    for (int i = 0; i < ROUNDS; i++) {
      if (repaired)
        while (__atomic_fetch_add(&taken[i], 1, __ATOMIC_RELAXED) < PIECES) compute(400000 / PIECES);
      else
        compute(number ? 100000 : 300000);
      if (!repaired) meet();
    }
    meet();
  } else if (!strcmp(kind, "sharing")) {
    bump_often(number);
  } else if (!strcmp(kind, "disk")) {
    char name[] = "vitalfew-disk-XXXXXX", record[512] = "";
    int file = mkstemp(name);
    if (file < 0) exit(2);
    unlink(name);
    for (int i = 0; i < 400; i++) {
      compute(20000);
      keep(file, record);
    }
    close(file);
  } else {
    while (take()) compute(100000);
  }
  return at;
}

int main(int argc, char **argv) {
  if (argc < 2) return 2;
  kind = argv[1];
  repaired = argc > 2;
  pthread_t threads[THREADS];
  pthread_barrier_init(&barrier, NULL, THREADS);
  pthread_barrier_init(&start, NULL, THREADS);
  if (pipe(jobs)) return 2;
  int pool = !strcmp(kind, "pool");
  if (pool && repaired) {
    fcntl(jobs[1], F_SETPIPE_SZ, 1 << 16);
    for (int i = 0; i < 1000; i++)
      if (write(jobs[1], "j", 1) != 1) return 2;
    close(jobs[1]);
  }
  for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
  if (pool && !repaired) {
    for (int i = 0; i < 500; i++) {
      compute(500000);
      if (write(jobs[1], "j", 1) != 1) return 2;
    }
    close(jobs[1]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  if (!strcmp(kind, "sharing")) printf("%ld\n", (bumping_ns[0] + bumping_ns[1]) / (THREADS * BUMPS));
  return 0;
}
