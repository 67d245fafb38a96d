/* weights: weights are gathered in an order that no cache foresees; repaired, in the order of the memory. further_weights [repaired] */
#include "work.h"

enum { WEIGHTS = 1 << 24 };

APART static unsigned long gather_weights(const unsigned *order, const unsigned *weights) {
  unsigned long sum = 0;
  for (unsigned at = 0; at < WEIGHTS; at++) sum += weights[order[at]] ^ sum << 1;
  return sum;
}

int main(int words, char **unused) {
  (void)unused;
  repaired = words > 1;
  unsigned *order = malloc(WEIGHTS * sizeof *order), *weights = malloc(WEIGHTS * sizeof *weights);
  for (unsigned at = 0; at < WEIGHTS; at++) {
    order[at] = repaired ? at : (at * 2654435761u + 12345) % WEIGHTS;
    weights[at] = at;
  }
  unsigned long sum = 0;
  for (int round = 0; round < 12; round++) sum ^= gather_weights(order, weights) ^ DIGEST(sum, 300000);
  printf("%lu\n", sum);
  free(order);
  free(weights);
}
