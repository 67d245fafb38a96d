/* More code that is worth speeding up as a set, written when `sets.c` came out right:
 *
 *     gatherings [SET [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `trees` (a recursive function with a leaf that is inlined, of which two threads have one each: sets `from_first`, `from_second`),
 * `striped` (an array of locks, some work under each: set `stripes`), `readers` (a readers-writer lock with a reader and a writer: set
 * `shared`) or `turns` (two threads take turns by a condition, and work under its lock: set `turn`). */
#include "causal.h"

#define NOINLINE __attribute__((noinline))
#define STAY __asm__ volatile("")

static pthread_barrier_t barrier;
static pthread_mutex_t stripes[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static pthread_rwlock_t shared = PTHREAD_RWLOCK_INITIALIZER;
static pthread_mutex_t turn = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t passed = PTHREAD_COND_INITIALIZER;
static int whose;
static long of_first, of_second, of_stripe, of_outside, of_reading, of_writing, of_between, of_turn, of_rest;

static inline __attribute__((always_inline)) void leaf(long n) { WORK(n) }

/* Four leaves below two levels. */
static NOINLINE void descend(int depth, long n) {
  if (depth == 0) {
    leaf(n / 4);
    return;
  }
  descend(depth - 1, n);
  descend(depth - 1, n);
  STAY;
}

static NOINLINE void from_first(void) {
  descend(2, of_first);
  STAY;
}

static NOINLINE void from_second(void) {
  descend(2, of_second);
  STAY;
}

static void piece(void) {
  VITALFEW_PROGRESS("piece");
  progress();
}

static void *first_tree(void *unused) {
  for (;;) {
    from_first();
    pthread_barrier_wait(&barrier);
    piece();
  }
  return unused;
}

static void *second_tree(void *unused) {
  for (;;) {
    from_second();
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *striped(void *unused) {
  for (;;) {
    pthread_mutex_lock(&stripes[0]);
    leaf(of_stripe);
    pthread_mutex_unlock(&stripes[0]);
    pthread_mutex_lock(&stripes[1]);
    leaf(of_stripe / 4);
    pthread_mutex_unlock(&stripes[1]);
    leaf(of_outside);
    piece();
  }
  return unused;
}

static void *reader(void *unused) {
  for (;;) {
    pthread_rwlock_rdlock(&shared);
    leaf(of_reading);
    pthread_rwlock_unlock(&shared);
    leaf(of_between);
  }
  return unused;
}

static void *writer(void *unused) {
  for (;;) {
    pthread_rwlock_wrlock(&shared);
    leaf(of_writing);
    pthread_rwlock_unlock(&shared);
    leaf(of_between / 2);
    piece();
  }
  return unused;
}

static void *player(void *number) {
  for (;;) {
    pthread_mutex_lock(&turn);
    while (whose != (int)(long)number) pthread_cond_wait(&passed, &turn);
    leaf(of_turn);
    whose ^= 1;
    pthread_cond_broadcast(&passed);
    pthread_mutex_unlock(&turn);
    leaf(of_rest);
    piece();
  }
  return NULL;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  const char *kind = argc > 4 ? argv[4] : "trees";
  double unit = argc > 5 ? 1000.0 * atof(argv[5]) : 1e6;
  of_first = work("from_first", (long)unit), of_second = work("from_second", (long)(0.7 * unit));
  of_stripe = work("stripes", (long)(0.5 * unit)), of_outside = (long)(0.2 * unit);
  of_reading = work("shared", (long)(0.4 * unit)), of_writing = work("shared", (long)(0.5 * unit));
  of_between = (long)(0.3 * unit);
  of_turn = work("turn", (long)(0.5 * unit)), of_rest = (long)(0.3 * unit);
  pthread_barrier_init(&barrier, NULL, 2);
  struct { const char *kind; void *(*one)(void *), *(*two)(void *); } kinds[] = {
      {"trees", first_tree, second_tree}, {"striped", striped, striped}, {"readers", writer, reader}, {"turns", player, player}};
  for (int at = 0; at < 4; at++) {
    if (strcmp(kind, kinds[at].kind)) continue;
    pthread_t thread;
    pthread_create(&thread, NULL, kinds[at].one, (void *)0);
    pthread_create(&thread, NULL, kinds[at].two, (void *)1);
  }
  run_for_a_while();
  return finish();
}
