// Programs of known truth: held KIND [repaired]. Each has one dominant cause, and a form without it. Nothing of `vitalfew run` was
// tuned on these; tuned.c has those that it was. benches/run_cases.py runs both.
#include "work.h"

#include <errno.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* branch: values in any order are compared with a limit; repaired, they are in order. */
enum { VALUES = 1 << 15 };
static unsigned char values[VALUES];
APART static unsigned long count_large(unsigned limit) {
  unsigned long large = 0, sum = 0;
  for (int i = 0; i < VALUES; i++)
    if (values[i] > limit) {
      large++;
      sum += values[i];
      __asm__ volatile("" : "+r"(large), "+r"(sum));  // remains a branch
    }
  return large + sum;
}
static void branch(void) {
  unsigned seed = 7, counts[256] = {0};
  for (int i = 0; i < VALUES; i++) counts[values[i] = (seed = seed * 1664525 + 1013904223) >> 24]++;
  for (int value = 0, at = 0; repaired && value < 256; value++)
    while (counts[value]--) values[at++] = (unsigned char)value;
  for (int i = 0; i < 6000; i++) result = DIGEST(count_large(120 + i % 16), 6000);
}

/* barrier: in each step one thread has three times as much to do; repaired, as much. */
static pthread_barrier_t step_end;
APART static void move_particles(long count) { result = DIGEST(count, count * 8); }
static void *barrier(void *thread) {
  long own = repaired ? 2000 : thread ? 1000 : 3000;
  for (int step = 0; step < 8000; step++) {
    move_particles(own);
    pthread_barrier_wait(&step_end);
  }
  return NULL;
}

/* faults: a new buffer for each request; repaired, always the same. */
enum { BUFFER = 1 << 20 };
APART static void fill_buffer(char *buffer) {
  for (int i = 0; i < BUFFER; i += 4096) buffer[i] = 1;
}
static char *new_buffer(void) {
  return mmap(NULL, BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}
static void faults(void) {
  char *kept = new_buffer();
  for (int i = 0; i < 4000; i++) {
    char *buffer = repaired ? kept : new_buffer();
    fill_buffer(buffer);
    if (!repaired) munmap(buffer, BUFFER);
    result = DIGEST(i, 9000);
  }
}

/* logging: each event is written at once; repaired, when the buffer is full. */
static FILE *journal;
APART static void log_event(long number, unsigned long value) {
  fprintf(journal, "event %ld of session 17 ended with %lu\n", number, value);
  if (!repaired) fflush(journal);
}
static void logging(void) {
  journal = tmpfile();
  for (long i = 0; i < 300000; i++) log_event(i, DIGEST(i, 200));
}

/* processes: a program is started for each item; repaired, a function called. */
extern char **environ;
APART static void run_helper(long item) {
  char *words[] = {"/bin/true", NULL};
  pid_t child;
  int status;
  if (!repaired && !posix_spawn(&child, words[0], NULL, NULL, words, environ)) waitpid(child, &status, 0);
  result = DIGEST(item, 500);
}
static void processes(void) {
  for (long i = 0; i < 1200; i++) {
    run_helper(i);
    result = DIGEST(i, 25000);
  }
}

/* bandwidth: two threads go over large arrays once for each operation; repaired, once for all. */
enum { LARGE = 1 << 23, OPERATIONS = 6 };
APART static void apply_operation(float *own, float factor) {
  for (long i = 0; i < LARGE; i++) own[i] = own[i] * factor + 1;
}
APART static void apply_operations(float *own, int count) {
  for (long i = 0; i < LARGE; i += 4096)
    for (int operation = 0; operation < count; operation++)
      for (long j = i; j < i + 4096; j++) own[j] = own[j] * (1 + operation * 1e-3f) + 1;
}
static void *bandwidth(void *thread) {
  float *own = calloc(LARGE, sizeof *own);
  for (int round = 0; round < 16; round++) {
    if (repaired) apply_operations(own, OPERATIONS);
    for (int operation = 0; !repaired && operation < OPERATIONS; operation++) apply_operation(own, 1 + operation * 1e-3f);
    DIGEST(round, 4000000);
  }
  result = (unsigned long)own[0];
  return thread;
}

/* reading: blocks of a file are read from the disk one by one; repaired, from memory. */
enum { BLOCKS = 4096 };
APART static void read_block(int file, long number, char *to) {
  if (pread(file, to, 4096, number * 4096) != 4096) exit(1);
}
static void reading(void) {
  char path[] = "/var/tmp/run-case-XXXXXX";
  char *block = aligned_alloc(4096, 4096);
  int file = mkstemp(path);
  memset(block, 1, 4096);
  for (long i = 0; i < BLOCKS; i++)
    if (write(file, block, 4096) != 4096) exit(1);
  fsync(file);
  int again = open(path, repaired ? O_RDONLY : O_RDONLY | O_DIRECT);
  if (again < 0) exit(1);
  unlink(path);
  for (long i = 0; i < 12000; i++) {
    read_block(again, i * 1103 % BLOCKS, block);
    result = DIGEST(block[0] + i, 5000);
  }
}

/* blocked: events wait while a cache is saved; repaired, while it is copied. */
static pthread_mutex_t cache = PTHREAD_MUTEX_INITIALIZER;
static volatile int done;
APART static void handle_event(long number) {
  result = DIGEST(number, 6000);
  pthread_mutex_lock(&cache);
  result = DIGEST(number, 200);
  pthread_mutex_unlock(&cache);
}
APART static void save_cache(void) {
  pthread_mutex_lock(&cache);
  if (!repaired) DIGEST(3, 400000);
  pthread_mutex_unlock(&cache);
  if (repaired) DIGEST(3, 400000);
  usleep(500);
}
static void *save_often(void *none) {
  while (!done) save_cache();
  return none;
}
static void *handle_events(void *none) {
  for (long i = 0; i < 20000; i++) {
    handle_event(i);
    if (i % 20 == 0) usleep(50);
  }
  done = 1;
  return none;
}

/* socket: an answer is asked for again and again with a pause; repaired, waited for. */
APART static void receive_reply(int socket) {
  char reply[64];
  while (recv(socket, reply, sizeof reply, repaired ? 0 : MSG_DONTWAIT) < 0) {
    if (errno != EAGAIN) exit(1);
    usleep(1000);
  }
}
static void retrying(void) {
  int ends[2];
  char request[64] = {0};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends)) exit(1);
  if (!fork()) {
    close(ends[0]);
    while (recv(ends[1], request, sizeof request, 0) > 0) {
      DIGEST(request[0], 15000);
      if (send(ends[1], request, sizeof request, 0) < 0) break;
    }
    _exit(0);
  }
  close(ends[1]);
  for (long i = 0; i < 1500; i++) {
    if (send(ends[0], request, sizeof request, 0) < 0) exit(1);
    receive_reply(ends[0]);
    result = DIGEST(i, 20000);
  }
  close(ends[0]);
  wait(NULL);
}

int main(int count, char **words) {
  const char *kind = count > 1 ? words[1] : "";
  repaired = count > 2;
  pthread_barrier_init(&step_end, NULL, THREADS);
  if (!strcmp(kind, "branch")) branch();
  else if (!strcmp(kind, "barrier")) run_threads(barrier, barrier);
  else if (!strcmp(kind, "faults")) faults();
  else if (!strcmp(kind, "logging")) logging();
  else if (!strcmp(kind, "processes")) processes();
  else if (!strcmp(kind, "bandwidth")) run_threads(bandwidth, bandwidth);
  else if (!strcmp(kind, "reading")) reading();
  else if (!strcmp(kind, "blocked")) run_threads(handle_events, save_often);
  else if (!strcmp(kind, "socket")) retrying();
  else return fputs("usage: held KIND [repaired]\n", stderr), 2;
  return 0;
}
