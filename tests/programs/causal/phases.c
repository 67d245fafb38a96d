/* One thread whose work changes every 1.5 seconds or so: the line of the first phase runs in a third of the
 * time, and a faster one makes that phase shorter. */
#include "causal.h"

int main(int argc, char **argv) {
  setup(argc, argv);
  long of_first = work("first", 3000000), of_second = work("second", 3000000);
  while (now() - started < knob_seconds) {
    for (int i = 0; i < 500; i++) {
      WORK(of_first); /* line: first */
      VITALFEW_PROGRESS("unit");
      progress();
    }
    for (int i = 0; i < 1000; i++) {
      WORK(of_second); /* line: second */
      VITALFEW_PROGRESS("unit");
      progress();
    }
  }
  return finish();
}
