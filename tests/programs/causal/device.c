/* Waits for a device (a timer stands for it: 3 ms after it is asked) and then computes for 2 ms. */
#include "causal.h"
#include "disk.h"

int main(int argc, char **argv) {
  setup(argc, argv);
  long n = work("compute", 2000000), check = work("check", 400000);
  long wait = work("device", 3000000);
  int device = open_disk();
  while (now() - started < knob_seconds) {
    ask_disk(device, wait);
    read_disk(device, wait); /* line: device */
    WORK(n); /* line: compute */
    WORK(check); /* line: check */
    VITALFEW_PROGRESS("block");
    progress();
  }
  return finish();
}
