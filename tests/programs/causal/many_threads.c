/* Eight threads for two processors, each for itself: what counts is all the work that there is. */
#include "causal.h"

static long most, rest;

static void *worker(void *unused) {
  while (!atomic_load(&stop)) {
    WORK(most); /* line: most */
    WORK(rest); /* line: rest */
    VITALFEW_PROGRESS("unit");
    progress();
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  most = work("most", 2400000), rest = work("rest", 1600000);
  pthread_t thread;
  for (int i = 0; i < 8; i++) pthread_create(&thread, NULL, worker, NULL);
  run_for_a_while();
  return finish();
}
