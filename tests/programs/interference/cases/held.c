// Programs whose interference is known, and programs without any: held KIND [repaired]. Nothing was tuned on these;
// tuned.c has those that it was. benches/interference_cases.py runs both.
#define _GNU_SOURCE
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define THREADS 2

static int repaired;

/* Divisions of whole numbers, each of the result of the one before. */
APART unsigned long digest(unsigned long seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}

/* rwlock: a table that is rewritten all the time; repaired, each thread has its own. */
static struct { pthread_rwlock_t lock; unsigned long table[64]; char apart[128]; } tables[THREADS];
APART void rewrite(long number, int round) {
  long at = repaired ? number : 0;
  pthread_rwlock_wrlock(&tables[at].lock);
  for (int i = 0; i < 64; i++) tables[at].table[i] = digest(round + i, 100);
  pthread_rwlock_unlock(&tables[at].lock);
}
static void *rwlock(void *at) {
  for (int i = 0; i < 24000; i++) {
    rewrite((intptr_t)at, i);
    digest(i, 300);
  }
  return at;
}

/* queue: a lock that looks a hundred times before it yields; repaired, each thread has a queue of its own. */
static struct { int held; long length; char apart[128]; } queues[THREADS];
APART void take_lock(int *held) {
  for (int looks = 0;; looks++) {
    if (!__atomic_load_n(held, __ATOMIC_RELAXED) && !__atomic_exchange_n(held, 1, __ATOMIC_ACQUIRE)) return;
    if (looks % 100 == 99) sched_yield();
  }
}
APART void push_item(long number, int item) {
  long at = repaired ? number : 0;
  take_lock(&queues[at].held);
  queues[at].length += digest(item, 5000) & 1;
  __atomic_store_n(&queues[at].held, 0, __ATOMIC_RELEASE);
}
static void *queue(void *at) {
  for (int i = 0; i < 30000; i++) {
    push_item((intptr_t)at, i);
    digest(i, 500);
  }
  return at;
}

/* strings: texts grow by realloc in one arena; repaired, in one for each thread. */
APART char *join_words(unsigned seed) {
  char *text = NULL;
  size_t length = 0;
  for (int i = 0; i < 24; i++) {
    size_t more = 300 + (seed = seed * 69069 + 1) % 900;
    text = realloc(text, length + more);
    memset(text + length, 'x', 64);
    length += more;
  }
  return text;
}
static void *strings(void *at) {
  char *kept[32] = {0};
  for (unsigned i = 0; i < 150000; i++) {
    free(kept[i % 32]);
    kept[i % 32] = join_words(i * 31 + (unsigned)(intptr_t)at);
  }
  return at;
}

/* discard: buffers are given back and touched again; repaired, by two processes. */
APART void use_buffer(char *buffer, size_t size) {
  for (size_t i = 0; i < size; i += 4096) buffer[i] = 1;
  madvise(buffer, size, MADV_DONTNEED);
}
static void *discard(void *at) {
  size_t size = 128 << 10;
  char *buffer = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int i = 0; i < 6000; i++) use_buffer(buffer, size);
  return at;
}

/* histogram: each thread counts in its half, a step at a time; repaired, the halves lie apart. */
static pthread_barrier_t phase;
static struct { unsigned hits[256]; } bins __attribute__((aligned(256)));
APART void count_word(volatile unsigned *own, unsigned word) {
  for (int i = 0; i < 64; i++) {
    own[(word >> i) & 3]++;
    own[(word >> i) & 1]++;
  }
}
static void *histogram(void *at) {
  long number = (intptr_t)at;
  volatile unsigned *own = &bins.hits[repaired ? number * 128 : number * 4];
  for (int round = 0; round < 1000; round++) {
    for (unsigned i = 0; i < 2500; i++) count_word(own, i * 2654435761u);
    pthread_barrier_wait(&phase);
  }
  return at;
}

/* crunch: threads that have nothing to do with each other. In a control group with a limit, or beside others, the same. */
APART void encode_block(int number) { digest(number, 12000); }
static void *crunch(void *at) {
  for (int i = 0; i < 20000; i++) encode_block(i);
  return at;
}

/* Without interference. texts: work by the length of what is pointed to. */
static char text[4096];
APART unsigned long scan(const char *from) {
  unsigned long sum = 0;
  for (; *from; from++) sum = digest(sum + (unsigned char)*from, 8);
  return sum;
}
static void *texts(void *at) {
  unsigned seed = 11 + (unsigned)(intptr_t)at;
  for (int i = 0; i < 5000; i++) scan(text + (seed = seed * 69069 + 1) % 4000);
  return at;
}
/* recursion: a tree whose parts differ. */
APART unsigned long visit(unsigned seed, int depth) {
  unsigned long sum = digest(seed, 20);
  if (depth == 0 || seed % 5 == 0) return sum;
  return sum + visit(seed * 3 + 1, depth - 1) + visit(seed * 7 + 2, depth - 1);
}
static void recursion(void) {
  for (unsigned i = 1; i < 3000; i++) visit(i, 14);
}
/* own: locks that nobody else takes. */
static void *own(void *at) {
  long number = (intptr_t)at;
  for (int i = 0; i < 40000; i++) {
    pthread_rwlock_wrlock(&tables[number].lock);
    tables[number].table[i % 64] = digest(i, 3000);
    pthread_rwlock_unlock(&tables[number].lock);
  }
  return at;
}
/* logger: a thread writes what main says now and then. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t said = PTHREAD_COND_INITIALIZER;
static int lines, over;
static void *write_lines(void *at) {
  int file = open("/dev/null", O_WRONLY);
  pthread_mutex_lock(&lock);
  while (!over || lines) {
    while (!lines && !over) pthread_cond_wait(&said, &lock);
    int now = lines;
    lines = 0;
    pthread_mutex_unlock(&lock);
    while (now--) dprintf(file, "%lu\n", digest(now, 1000));
    pthread_mutex_lock(&lock);
  }
  pthread_mutex_unlock(&lock);
  close(file);
  return at;
}
static void logger(void) {
  pthread_t writer;
  pthread_create(&writer, NULL, write_lines, NULL);
  for (int i = 0; i < 9000; i++) {
    encode_block(i);
    pthread_mutex_lock(&lock);
    if (i % 20 == 0) lines++, pthread_cond_signal(&said);
    over = i == 8999;
    if (over) pthread_cond_signal(&said);
    pthread_mutex_unlock(&lock);
  }
  pthread_join(writer, NULL);
}
/* polled: a thread waits for what seldom comes through a pipe. */
static int pipes[2];
static void *listen_all(void *at) {
  struct pollfd from = {.fd = pipes[0], .events = POLLIN};
  char byte;
  while (poll(&from, 1, 50) >= 0) {
    if (!(from.revents & (POLLIN | POLLHUP))) continue;
    if (read(pipes[0], &byte, 1) <= 0) break;
    digest(byte, 20000);
  }
  return at;
}
static void polled(void) {
  pthread_t listener;
  if (pipe(pipes)) exit(1);
  pthread_create(&listener, NULL, listen_all, NULL);
  for (int i = 0; i < 9000; i++) {
    encode_block(i);
    if (i % 100 == 0 && write(pipes[1], "x", 1) != 1) exit(1);
  }
  close(pipes[1]);
  pthread_join(listener, NULL);
}
/* file: one thread reads pieces of different sizes. */
APART unsigned long read_piece(int file, size_t size) {
  static char buffer[1 << 16];
  ssize_t n = pread(file, buffer, size, 0);
  return digest((unsigned long)n, (long)size / 16);
}
static void files(void) {
  int file = open("/proc/self/exe", O_RDONLY);
  unsigned seed = 1;
  for (int i = 0; i < 100000; i++) read_piece(file, 100 + (seed = seed * 69069 + 1) % 15000);
  close(file);
}
/* ticker: a thread with a timer beside one that computes. */
static void *tick(void *at) {
  while (!__atomic_load_n(&over, __ATOMIC_RELAXED)) {
    struct timespec time = {.tv_nsec = 2000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    digest(1, 3000);
  }
  return at;
}
static void ticker(void) {
  pthread_t thread;
  pthread_create(&thread, NULL, tick, NULL);
  for (int i = 0; i < 9000; i++) encode_block(i);
  __atomic_store_n(&over, 1, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
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
  for (;;) digest(3, 100000);
}

int main(int argc, char **argv) {
  const char *kind = argc > 1 ? argv[1] : "";
  repaired = argc > 2;
  for (int i = 0; i < THREADS; i++) pthread_rwlock_init(&tables[i].lock, NULL);
  pthread_barrier_init(&phase, NULL, THREADS);
  memset(text, 'a', sizeof text - 1);
  if (!strcmp(kind, "rwlock")) run(rwlock);
  else if (!strcmp(kind, "queue")) run(queue);
  else if (!strcmp(kind, "strings")) {
    if (!repaired) mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 1 << 24);
    mallopt(M_TRIM_THRESHOLD, 1 << 28);
    run(strings);
  } else if (!strcmp(kind, "discard")) (repaired ? in_processes : run)(discard);
  else if (!strcmp(kind, "histogram")) run(histogram);
  else if (!strcmp(kind, "crunch")) run(crunch);
  else if (!strcmp(kind, "texts")) run(texts);
  else if (!strcmp(kind, "recursion")) recursion();
  else if (!strcmp(kind, "own")) run(own);
  else if (!strcmp(kind, "logger")) logger();
  else if (!strcmp(kind, "polled")) polled();
  else if (!strcmp(kind, "file")) files();
  else if (!strcmp(kind, "ticker")) ticker();
  else if (!strcmp(kind, "hog")) hog();
  else return 2;
  return 0;
}
