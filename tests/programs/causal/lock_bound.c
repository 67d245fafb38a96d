/* Three threads that do most of their work under one lock: only what is under it counts. */
#include "causal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long inside, outside;

static void *worker(void *unused) {
  while (!atomic_load(&stop)) {
    WORK(outside); /* line: outside */
    pthread_mutex_lock(&lock);
    WORK(inside); /* line: inside */
    pthread_mutex_unlock(&lock);
    VITALFEW_PROGRESS("turn");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  inside = work("inside", 2000000), outside = work("outside", 1000000);
  pthread_t thread;
  for (int i = 0; i < 3; i++) pthread_create(&thread, NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
