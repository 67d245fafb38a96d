/* Two threads that meet at a barrier after each phase; one has more to do. */
#include "causal.h"

static pthread_barrier_t barrier;
static long of_long, of_short;

static void *long_one(void *unused) {
  for (;;) {
    WORK(of_long); /* line: long */
    pthread_barrier_wait(&barrier);
    VITALFEW_PROGRESS("phase");
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

int main(int argc, char **argv) {
  setup(argc, argv);
  of_long = work("long", 3000000), of_short = work("short", 1800000);
  pthread_barrier_init(&barrier, NULL, 2);
  pthread_t thread;
  pthread_create(&thread, NULL, long_one, NULL);
  pthread_create(&thread, NULL, short_one, NULL);
  run_for_a_while();
  return finish();
}
