/* A thread that polls for work and holds the lock while it looks: the faster it comes back, the longer
 * the one that works must wait. Both spin. All takes half to one and a half times as long as said, by
 * chance: otherwise the two fall into step, and the truth is one of resonances. */
#include "causal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long pause_between, looking, working;

/* About `n`. */
static long some(unsigned short *seed, long n) { return (long)((0.5 + erand48(seed)) * (double)n); }

static void *poller(void *unused) {
  unsigned short seed[3] = {1, 2, 3};
  for (;;) {
    WORK(some(seed, 400000));
    WORK(some(seed, pause_between)); /* line: pause */
    if (pthread_mutex_trylock(&lock) == 0) {
      WORK(some(seed, looking)); /* line: look */
      pthread_mutex_unlock(&lock);
    }
  }
  return unused;
}

static void *worker(void *unused) {
  unsigned short seed[3] = {4, 5, 6};
  for (;;) {
    while (pthread_mutex_trylock(&lock) != 0) WORK(200);
    WORK(some(seed, working)); /* line: work */
    pthread_mutex_unlock(&lock);
    VITALFEW_PROGRESS("step");
    progress();
    WORK(some(seed, 400000));
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pause_between = work("pause", 2400000), looking = work("look", 2400000), working = work("work", 1600000);
  pthread_t thread;
  pthread_create(&thread, NULL, poller, NULL);
  pthread_create(&thread, NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
