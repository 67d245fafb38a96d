// Programs whose interference is known, and programs without any: tuned KIND [repaired]. The method was tuned on these;
// held.c has those that were written afterwards. benches/interference_cases.py runs both.
#define _GNU_SOURCE
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define THREADS 2

static int repaired;

/* A chain of multiplications: what the other half of the core does makes no difference to it. */
APART unsigned long compute(long turns) {
  unsigned long product = (unsigned long)turns | 1;
  for (long i = 0; i < turns; i++) {
    product *= 0x9e3779b97f4a7c15u;
    __asm__ volatile("" : "+r"(product));
  }
  return product;
}
#define MICROSECOND 600L

/* semaphore: one at a time may work; repaired, all may. */
static sem_t gate;
APART void work_behind_gate(void) {
  sem_wait(&gate);
  compute(40 * MICROSECOND);
  sem_post(&gate);
}
static void *semaphore(void *at) {
  for (int i = 0; i < 12000; i++) work_behind_gate();
  return at;
}

/* mutex: it is never free for long; repaired, each thread has its own. */
static struct { pthread_mutex_t lock; char apart[128]; } locks[THREADS];
APART void update_table(long number) {
  pthread_mutex_lock(&locks[repaired ? number : 0].lock);
  compute(60 * MICROSECOND);
  pthread_mutex_unlock(&locks[repaired ? number : 0].lock);
}
static void *mutex(void *at) {
  for (int i = 0; i < 8000; i++) {
    update_table((intptr_t)at);
    compute(2 * MICROSECOND);
  }
  return at;
}

/* yield: a lock of our own, that yields until it is free; repaired, each thread has its own. */
static struct { int taken; char apart[128]; } flags[THREADS];
APART void take_turn(long number) {
  int *taken = &flags[repaired ? number : 0].taken;
  while (__atomic_exchange_n(taken, 1, __ATOMIC_ACQUIRE)) sched_yield();
  compute(30 * MICROSECOND);
  __atomic_store_n(taken, 0, __ATOMIC_RELEASE);
  compute(3 * MICROSECOND);
}
static void *yield(void *at) {
  for (int i = 0; i < 14000; i++) take_turn((intptr_t)at);
  return at;
}

/* arena: all allocate from one arena; repaired, each thread from its own. */
APART void churn(unsigned seed) {
  void *kept[48];
  for (int i = 0; i < 48; i++) {
    seed = seed * 1103515245 + 12345;
    kept[i] = malloc(2000 + seed % 6000);
    *(volatile char *)kept[i] = 1;
  }
  for (int i = 0; i < 48; i++) free(kept[(i * 7) % 48]);
}
static void *arena(void *at) {
  for (unsigned i = 0; i < 60000; i++) churn(i * 2 + (unsigned)(intptr_t)at);
  return at;
}

/* mappings: threads map, touch and unmap; repaired, two processes do. */
APART void map_once(void) {
  size_t size = 256 << 10;
  char *mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (size_t i = 0; i < size; i += 4096) mapped[i] = 1;
  munmap(mapped, size);
}
static void *mappings(void *at) {
  for (int i = 0; i < 12000; i++) map_once();
  return at;
}

/* sharing: rounds of increments between barriers; repaired, the counters lie in lines of their own. */
static pthread_barrier_t meeting;
static struct { volatile long counts[64]; } shared __attribute__((aligned(128)));
APART void count_up(long number) {
  volatile long *mine = &shared.counts[repaired ? number * 32 : number];
  for (int i = 0; i < 100; i++) {
    __atomic_fetch_add(mine, 1, __ATOMIC_RELAXED);
    compute(8);
  }
}
static void *sharing(void *at) {
  for (int round = 0; round < 300; round++) {
    for (int i = 0; i < 500; i++) count_up((intptr_t)at);
    pthread_barrier_wait(&meeting);
  }
  return at;
}

/* steps: uniform work of threads that have nothing to do with each other. In a control group with a limit, or
   beside another program, the same. */
APART void step(void) { compute(100 * MICROSECOND); }
static void *steps(void *at) {
  for (int i = 0; i < 9000; i++) step();
  return at;
}

/* Without interference. varied: work by argument. */
APART unsigned long sum_up(long from, long n) { return compute(n * 50 + from % 2); }
static void *varied(void *at) {
  unsigned seed = 7 + (unsigned)(intptr_t)at;
  for (int i = 0; i < 30000; i++) {
    seed = seed * 1103515245 + 12345;
    sum_up(i, 1 + (seed >> 8) % 1000);
  }
  return at;
}
/* single: one thread, whose work varies by what is in memory. */
static int amounts[4096];
APART unsigned long by_data(const int *amount) { return compute(*amount * 20L); }
static void single(void) {
  unsigned seed = 3;
  for (int i = 0; i < 4096; i++) amounts[i] = (int)((seed = seed * 1103515245 + 12345) >> 8) % 3000;
  for (int i = 0; i < 30000; i++) by_data(&amounts[i % 4096]);
}
/* data: the same in two threads, over different data. */
static void *data(void *at) {
  for (int i = 0; i < 25000; i++) by_data(&amounts[(i + 1000 * (int)(intptr_t)at) % 4096]);
  return at;
}
/* maintenance: main serves, threads wake up now and then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t stop = PTHREAD_COND_INITIALIZER, more = PTHREAD_COND_INITIALIZER;
static int stopped, jobs;
static void *flush(void *at) {
  while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) {
    usleep(1000 + 500 * (int)(intptr_t)at);
    compute(20 * MICROSECOND);
  }
  return at;
}
static void *expire(void *at) {
  pthread_mutex_lock(&lock);
  while (!stopped) {
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 5000000;
    if (until.tv_nsec >= 1000000000) until.tv_nsec -= 1000000000, until.tv_sec++;
    pthread_cond_timedwait(&stop, &lock, &until);
  }
  pthread_mutex_unlock(&lock);
  return at;
}
static void *watch(void *at) {
  while (!__atomic_load_n(&stopped, __ATOMIC_RELAXED)) poll(NULL, 0, 10);
  return at;
}
static void maintenance(void) {
  void *(*all[])(void *) = {flush, flush, expire, watch};
  pthread_t threads[4];
  for (intptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, all[i], (void *)i);
  for (int i = 0; i < 10000; i++) step();
  pthread_mutex_lock(&lock);
  stopped = 1;
  pthread_cond_broadcast(&stop);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
/* helpers: four of them wait for the few things that main does not do itself. */
static void *help(void *at) {
  pthread_mutex_lock(&lock);
  for (;;) {
    while (!jobs && !stopped) pthread_cond_wait(&more, &lock);
    if (stopped) break;
    jobs--;
    pthread_mutex_unlock(&lock);
    compute(50 * MICROSECOND);
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  return at;
}
static void helpers(void) {
  pthread_t threads[4];
  for (intptr_t i = 0; i < 4; i++) pthread_create(&threads[i], NULL, help, (void *)i);
  for (int i = 0; i < 10000; i++) {
    step();
    if (i % 10) continue;
    pthread_mutex_lock(&lock);
    jobs++;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
  }
  pthread_mutex_lock(&lock);
  stopped = 1;
  pthread_cond_broadcast(&more);
  pthread_mutex_unlock(&lock);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
}
/* sleeper: sleeps for as long as it is asked to. */
static void sleeper(void) {
  unsigned seed = 5;
  for (int i = 0; i < 400; i++) {
    seed = seed * 1103515245 + 12345;
    struct timespec time = {.tv_nsec = 10000 + (seed >> 8) % 5000000};
    nanosleep(&time, NULL);
    if (i % 3 == 0) usleep((seed >> 8) % 2000);
    step();
  }
}
/* requests: a server answers one request after the other over a socket; the client thinks in between. */
static int ends[2];
static void *serve(void *at) {
  long request;
  while (read(ends[1], &request, sizeof request) == sizeof request) {
    compute(20 * MICROSECOND);
    if (write(ends[1], &request, sizeof request) < 0) break;
  }
  return at;
}
static void requests(void) {
  pthread_t server;
  socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
  pthread_create(&server, NULL, serve, NULL);
  for (long i = 0; i < 6000; i++) {
    compute(150 * MICROSECOND);
    if (write(ends[0], &i, sizeof i) < 0 || read(ends[0], &i, sizeof i) < 0) exit(1);
  }
  close(ends[0]);
  pthread_join(server, NULL);
}

static void run(void *(*body)(void *)) {
  pthread_t threads[THREADS];
  for (intptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, body, (void *)i);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
}
static void in_processes(void *(*body)(void *)) {
  for (int i = 0; i < THREADS; i++)
    if (!fork()) exit(body(NULL) != NULL);
  for (int i = 0; i < THREADS; i++) wait(NULL);
}

/* hog: another program that computes for as long as it is left. */
static void hog(void) {
  for (;;) step();
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "";
  repaired = argc > 2;
  sem_init(&gate, 0, repaired ? THREADS : 1);
  for (int i = 0; i < THREADS; i++) pthread_mutex_init(&locks[i].lock, NULL);
  pthread_barrier_init(&meeting, NULL, THREADS);
  for (int i = 0; i < 4096; i++) amounts[i] = i * 7919 % 3000;
  if (!strcmp(kind, "semaphore")) run(semaphore);
  else if (!strcmp(kind, "mutex")) run(mutex);
  else if (!strcmp(kind, "yield")) run(yield);
  else if (!strcmp(kind, "arena")) {
    if (!repaired) mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 24);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    mallopt(M_TOP_PAD, 1 << 24);
    run(arena);
  } else if (!strcmp(kind, "mappings")) (repaired ? in_processes : run)(mappings);
  else if (!strcmp(kind, "sharing")) run(sharing);
  else if (!strcmp(kind, "steps")) run(steps);
  else if (!strcmp(kind, "varied")) run(varied);
  else if (!strcmp(kind, "single")) single();
  else if (!strcmp(kind, "data")) run(data);
  else if (!strcmp(kind, "maintenance")) maintenance();
  else if (!strcmp(kind, "helpers")) helpers();
  else if (!strcmp(kind, "sleeper")) sleeper();
  else if (!strcmp(kind, "requests")) requests();
  else if (!strcmp(kind, "hog")) hog();
  else return 2;
  return 0;
}
