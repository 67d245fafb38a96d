/* Figure 1 of the paper, in rounds: a() is on the critical path by a twentieth, b() is not. */
#include "causal.h"

static long of_a, of_b;

static void *a(void *unused) {
  WORK(of_a); /* line: a */
  return unused;
}

static void *b(void *unused) {
  WORK(of_b); /* line: b */
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  of_a = work("a", 8000000), of_b = work("b", 7600000);
  while (now() - started < knob_seconds) {
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, a, NULL);
    pthread_create(&threads[1], NULL, b, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    VITALFEW_PROGRESS("round");
    progress();
  }
  return finish();
}
