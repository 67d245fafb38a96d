/* prices: an index has an entry of a page for each price, and does not fit into the memory of its control group; repaired, an entry is a
   number. further_prices GROUP [repaired] */
#include "work.h"

enum { PRICES = 1 << 17, ORDERS = 20000 };

struct price {
  unsigned value;
  char description[];
};

/* From here on this process has no more memory than its control group. */
static void join_group(const char *group) {
  char path[4096];
  snprintf(path, sizeof path, "%s/cgroup.procs", group);
  FILE *members = fopen(path, "w");
  if (!members || fprintf(members, "%d\n", getpid()) < 0 || fclose(members)) {
    perror(path);
    exit(1);
  }
}

APART static unsigned price_of(const char *index, size_t size, unsigned product) {
  return ((const struct price *)(index + size * product))->value;
}

int main(int words, char **arguments) {
  repaired = words > 2;
  if (words > 1) join_group(arguments[1]);
  size_t size = repaired ? sizeof(struct price) : 4096;
  char *index = calloc(PRICES, size);
  for (unsigned product = 0; product < PRICES; product++) ((struct price *)(index + size * product))->value = product;
  unsigned long sum = 0;
  for (unsigned order = 0; order < ORDERS; order++) {
    unsigned product = (order * 2654435761u + sum) % PRICES;
    sum += price_of(index, size, product);
    sum ^= DIGEST(sum, 5000);
  }
  printf("%lu\n", sum);
  free(index);
}
