/* Threads that meet often:
 *
 *     meetings [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `barrier` (two wait for each other after each piece of work), `spin` (they wait by looking), `lock` (both need
 * one lock for most of their work), `rwlock` (a reader and a writer), `queue` (one makes what the other one uses) or
 * `unequal` (three threads on two processors: two share one, the third has the other); a piece takes about MICROSECONDS. */
#define _GNU_SOURCE
#include "kinds.h"
#include <sched.h>

static pthread_barrier_t barrier;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t room = PTHREAD_COND_INITIALIZER, something = PTHREAD_COND_INITIALIZER;
static int queued;
static long of_long, of_short, of_inside, of_outside, of_producer, of_consumer;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static long of_reading, of_between, of_writing, of_around;
static long of_first, of_second, of_alone;
static atomic_long arrived;

static void *long_one(void *unused) {
  for (;;) {
    WORK(of_long); /* line: long */
    pthread_barrier_wait(&barrier);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *short_one(void *unused) {
  for (;;) {
    WORK(of_short); /* line: short */
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

/* As a barrier of two that never sleeps. */
static void meet_spinning(void) {
  long round = atomic_fetch_add(&arrived, 1) / 2;
  while (atomic_load(&arrived) / 2 == round) {
#ifdef __x86_64__
    __asm__ volatile("pause");
#endif
  }
}

static void *spin_long(void *unused) {
  for (;;) {
    WORK(of_long); /* line: long_spinning */
    meet_spinning();
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *spin_short(void *unused) {
  for (;;) {
    WORK(of_short); /* line: short_spinning */
    meet_spinning();
  }
  return unused;
}

static void *reader(void *unused) {
  for (;;) {
    pthread_rwlock_rdlock(&rwlock);
    WORK(of_reading); /* line: reading */
    pthread_rwlock_unlock(&rwlock);
    WORK(of_between); /* line: between */
  }
  return unused;
}

static void *writer(void *unused) {
  for (;;) {
    pthread_rwlock_wrlock(&rwlock);
    WORK(of_writing); /* line: writing */
    pthread_rwlock_unlock(&rwlock);
    WORK(of_around); /* line: around */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void use_processor(int number) {
  cpu_set_t all, one;
  sched_getaffinity(0, sizeof all, &all);
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(cpu, &all) && number-- == 0) CPU_SET(cpu, &one);
  if (sched_setaffinity(0, sizeof one, &one)) perror("sched_setaffinity");
}

static void *first_of_two(void *unused) {
  use_processor(0);
  for (;;) {
    WORK(of_first); /* line: first */
    pthread_barrier_wait(&barrier);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *second_of_two(void *unused) {
  use_processor(0);
  for (;;) {
    WORK(of_second); /* line: second */
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *alone(void *unused) {
  use_processor(1);
  for (;;) {
    WORK(of_alone); /* line: alone */
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *locker(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    WORK(of_inside); /* line: inside */
    pthread_mutex_unlock(&lock);
    WORK(of_outside); /* line: outside */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *producer(void *unused) {
  for (;;) {
    WORK(of_producer); /* line: producer */
    pthread_mutex_lock(&lock);
    while (queued == 4) pthread_cond_wait(&room, &lock);
    queued++;
    pthread_cond_signal(&something);
    pthread_mutex_unlock(&lock);
  }
  return unused;
}

static void *consumer(void *unused) {
  for (;;) {
    pthread_mutex_lock(&lock);
    while (queued == 0) pthread_cond_wait(&something, &lock);
    queued--;
    pthread_cond_signal(&room);
    pthread_mutex_unlock(&lock);
    WORK(of_consumer); /* line: consumer */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static const struct kind kinds[] = {
    {"barrier", {long_one, short_one}},     {"spin", {spin_long, spin_short}},
    {"lock", {locker, locker}},             {"rwlock", {reader, writer}},
    {"queue", {producer, consumer}},        {"unequal", {first_of_two, second_of_two, alone}},
};

int main(int argc, char **argv) {
  setup(argc, argv);
  long n = piece_length(argc, argv);
  const struct kind *kind = find_kind(argc, argv, kinds, sizeof kinds / sizeof *kinds);
  int spins = strcmp(kind->name, "spin") == 0;
  of_long = work(spins ? "long_spinning" : "long", n);
  of_short = work(spins ? "short_spinning" : "short", n * 69 / 100);
  of_inside = work("inside", n * 60 / 100), of_outside = work("outside", n * 35 / 100);
  of_producer = work("producer", n * 70 / 100), of_consumer = work("consumer", n);
  of_reading = work("reading", n * 40 / 100), of_between = work("between", n * 30 / 100);
  of_writing = work("writing", n * 30 / 100), of_around = work("around", n * 50 / 100);
  of_first = work("first", n * 67 / 10), of_second = work("second", 2 * n), of_alone = work("alone", n * 64 / 10);
  int threads = kind->threads[2] ? 3 : 2;
  pthread_barrier_init(&barrier, NULL, threads);
  start_threads(kind);
  run_for_a_while();
  return finish();
}
