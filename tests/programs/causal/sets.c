/* Code that is worth speeding up as a set:
 *
 *     sets [SET [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `callers` (one function has two callers, of which only one holds the program up: sets `by_long`, `by_short`) or `sections` (two
 * threads need one lock for two different things: set `held`). A piece takes about MICROSECONDS. */
#include "causal.h"

static pthread_barrier_t barrier;
static pthread_mutex_t ledger = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t scratch = PTHREAD_MUTEX_INITIALIZER;
static long of_long, of_short, of_other, of_reading, of_writing, of_outside, of_scratch;

__attribute__((noinline)) static void burn(long n) { WORK(n) }

/* The compiler must not jump from the end of a function to the next one: then it has no caller. */
#define STAY __asm__ volatile("")

__attribute__((noinline)) static void by_long(void) {
  burn(of_long);
  STAY;
}

__attribute__((noinline)) static void by_short(long n) {
  burn(n);
  STAY;
}

static void *critical(void *unused) {
  for (;;) {
    by_long();
    by_short(of_short);
    pthread_barrier_wait(&barrier);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

static void *other(void *unused) {
  for (;;) {
    by_short(of_other);
    pthread_barrier_wait(&barrier);
  }
  return unused;
}

static void *sections(void *unused) {
  for (;;) {
    pthread_mutex_lock(&ledger);
    burn(of_reading);
    pthread_mutex_unlock(&ledger);
    burn(of_outside);
    pthread_mutex_lock(&ledger);
    burn(of_writing);
    pthread_mutex_unlock(&ledger);
    pthread_mutex_lock(&scratch);
    burn(of_scratch);
    pthread_mutex_unlock(&scratch);
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  const char *kind = argc > 4 ? argv[4] : "callers";
  double unit = argc > 5 ? 1000.0 * atof(argv[5]) : 1e6;
  of_long = work("by_long", (long)unit);
  of_short = work("by_short", (long)(0.4 * unit)), of_other = work("by_short", (long)(0.8 * unit));
  of_reading = work("held", (long)(0.4 * unit)), of_writing = work("held", (long)(0.2 * unit));
  of_outside = (long)(0.25 * unit), of_scratch = (long)(0.1 * unit);
  pthread_barrier_init(&barrier, NULL, 2);
  int callers = strcmp(kind, "callers") == 0;
  pthread_t thread;
  pthread_create(&thread, NULL, callers ? critical : sections, NULL);
  pthread_create(&thread, NULL, callers ? other : sections, NULL);
  run_for_a_while();
  return finish();
}
