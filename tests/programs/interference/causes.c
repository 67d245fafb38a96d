// One known cause of interference: causes KIND [repaired].
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define THREADS 2

static int repaired;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier;
static volatile long total;
static long own[THREADS * 32];
static struct {
  volatile long counts[64];
} shared __attribute__((aligned(128)));
static int jobs[2];

APART void compute(long turns) {
  for (volatile long i = 0; i < turns; i++)
    ;
}

/* lock: the section is most of the work; repaired, each thread counts for itself. */
APART void count(long number) {
  if (repaired) {
    compute(2000);
    own[number * 32]++;
    return;
  }
  pthread_mutex_lock(&lock);
  compute(2000);
  total++;
  pthread_mutex_unlock(&lock);
}

/* barrier: the first thread has three times the work of the other. */
APART void meet(void) { pthread_barrier_wait(&barrier); }

/* sharing: the counters of the threads lie in one cache line; repaired, in two. */
APART void bump(long number) {
  volatile long *mine = &shared.counts[repaired ? number * 32 : number];
  for (int i = 0; i < 200; i++) ++*mine;
}

/* disk: what is written has to reach the disk each time. */
APART void keep(int file, const char *record) {
  if (write(file, record, 512) != 512) exit(2);
  if (!repaired) fdatasync(file);
}

/* pool: workers wait for jobs in a pipe that is filled slowly. */
APART int take(void) {
  char job;
  return read(jobs[0], &job, 1) == 1;
}

static const char *kind;
static void *body(void *at) {
  long number = (long)(intptr_t)at;
  if (!strcmp(kind, "lock")) {
    for (int i = 0; i < 40000; i++) count(number);
  } else if (!strcmp(kind, "barrier")) {
    for (int i = 0; i < 400; i++) {
      compute(repaired || number ? 100000 : 300000);
      if (!repaired) meet();
    }
  } else if (!strcmp(kind, "sharing")) {
    for (int i = 0; i < 300000; i++) bump(number);
  } else if (!strcmp(kind, "disk")) {
    char name[] = "vitalfew-disk-XXXXXX", record[512] = "";
    int file = mkstemp(name);
    if (file < 0) exit(2);
    unlink(name);
    for (int i = 0; i < 1500; i++) {
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
  if (pipe(jobs)) return 2;
  int pool = !strcmp(kind, "pool");
  if (pool && repaired) {
    fcntl(jobs[1], F_SETPIPE_SZ, 1 << 16);
    for (int i = 0; i < 3000; i++)
      if (write(jobs[1], "j", 1) != 1) return 2;
    close(jobs[1]);
  }
  for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
  if (pool && !repaired) {
    for (int i = 0; i < 1500; i++) {
      compute(500000);
      if (write(jobs[1], "j", 1) != 1) return 2;
    }
    close(jobs[1]);
  }
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  return 0;
}
