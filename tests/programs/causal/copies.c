/* A line that is inlined at two places: in the thread that each round waits for, and in one that is done before. */
#include "causal.h"

static pthread_barrier_t meeting;
static long of_long, of_short;
static int over;

static inline __attribute__((always_inline)) void mix(long n) {
  WORK(n); /* line: both */
}

static void *slow(void *unused) {
  while (!over) {
    over = atomic_load(&stop);
    pthread_barrier_wait(&meeting);
    mix(of_long); /* line: long */
    pthread_barrier_wait(&meeting);
    VITALFEW_PROGRESS("round");
    progress();
  }
  return unused;
}

static void *quick(void *unused) {
  for (int last = 0; !last;) {
    pthread_barrier_wait(&meeting);
    last = over;
    mix(of_short); /* line: short */
    pthread_barrier_wait(&meeting);
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  of_long = work("long", 8000000), of_short = work("short", 2000000);
  if (strcmp(knob_line, "both") == 0) of_long = work("both", of_long), of_short = work("both", of_short);
  pthread_barrier_init(&meeting, NULL, 2);
  pthread_t threads[2];
  pthread_create(&threads[0], NULL, slow, NULL);
  pthread_create(&threads[1], NULL, quick, NULL);
  run_for_a_while();
  pthread_join(threads[0], NULL);
  pthread_join(threads[1], NULL);
  return finish();
}
