/* Asks for a result, and sleeps for 2 ms if it is not there: it is there after 5 ms. Then computes for 3 ms. */
#include "causal.h"

int main(int argc, char **argv) {
  setup(argc, argv);
  long pause = work("sleep", 2000000), check = work("check", 300000), n = work("compute", 3000000);
  while (now() - started < knob_seconds) {
    for (int i = 0; i < 3; i++) {
      WORK(check); /* line: check */
      struct timespec time = {0, pause};
      nanosleep(&time, NULL); /* line: sleep */
    }
    WORK(n); /* line: compute */
    VITALFEW_PROGRESS("result");
    progress();
  }
  return finish();
}
