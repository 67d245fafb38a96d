/* A parallel loop of OpenMP and a serial part behind it, in turn:
 *
 *     openmp [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `openmp`; two threads share the loop. Both together take about MICROSECONDS. */
#include "causal.h"

int main(int argc, char **argv) {
  setup(argc, argv);
  long n = 1000 * (argc > 5 ? atol(argv[5]) : 1000);
  long of_parallel = work("parallel", n * 70 / 100), of_serial = work("serial", n * 30 / 100);
  while (now() - started < knob_seconds) {
#pragma omp parallel for num_threads(2)
    for (int i = 0; i < 2; i++) {
      WORK(of_parallel); /* line: parallel */
    }
    WORK(of_serial); /* line: serial */
    VITALFEW_PROGRESS("piece");
    progress();
  }
  return finish();
}
