/* Waits for a device (a timer stands for it: 3 ms after it is asked) and then computes for 2 ms. */
#include "causal.h"
#include <stdint.h>
#include <sys/timerfd.h>

int main(int argc, char **argv) {
  setup(argc, argv);
  long n = work("compute", 2000000), check = work("check", 400000);
  int device = timerfd_create(CLOCK_MONOTONIC, 0);
  while (now() - started < knob_seconds) {
    struct itimerspec in = {{0, 0}, {0, 3000000}};
    uint64_t times;
    timerfd_settime(device, 0, &in, NULL);
    if (read(device, &times, sizeof times) != sizeof times) return 1;
    WORK(n); /* line: compute */
    WORK(check); /* line: check */
    VITALFEW_PROGRESS("block");
    progress();
  }
  return finish();
}
