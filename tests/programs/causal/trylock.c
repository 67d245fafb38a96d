/* A thread that polls for work and holds the lock while it looks: the faster it comes back, the longer
 * the one that works must wait. Both spin. */
#include "causal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long pause_between, looking, working;

static void *poller(void *unused) {
  for (;;) {
    WORK(pause_between); /* line: pause */
    if (pthread_mutex_trylock(&lock) == 0) {
      WORK(looking); /* line: look */
      pthread_mutex_unlock(&lock);
    }
  }
  return unused;
}

static void *worker(void *unused) {
  for (;;) {
    while (pthread_mutex_trylock(&lock) != 0) WORK(200);
    WORK(working); /* line: work */
    pthread_mutex_unlock(&lock);
    VITALFEW_PROGRESS("step");
    progress();
    WORK(100000);
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  pause_between = work("pause", 600000), looking = work("look", 600000), working = work("work", 400000);
  pthread_t thread;
  pthread_create(&thread, NULL, poller, NULL);
  pthread_create(&thread, NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
