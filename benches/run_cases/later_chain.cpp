// chain: the parts of an order hang in a chain that lies all over memory; repaired, they lie side by side. later_chain [repaired]
#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>
#include <vector>

struct Part {
  Part *next;
  long weight;
  long unused[6];
};

__attribute__((noinline)) static long weigh_parts(const Part *part) {
  long sum = 0;
  for (; part; part = part->next) sum += part->weight;
  return sum;
}

__attribute__((noinline)) static unsigned long mark_order(unsigned long sum) {
  for (int i = 0; i < 4000000; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

int main(int count, char **) {
  std::vector<Part> parts(1500000);
  std::vector<int> order(parts.size());
  std::iota(order.begin(), order.end(), 0);
  if (count == 1) std::shuffle(order.begin(), order.end(), std::mt19937(7));
  for (size_t i = 0; i < order.size(); i++) {
    parts[order[i]].weight = long(i);
    parts[order[i]].next = i + 1 < order.size() ? &parts[order[i + 1]] : nullptr;
  }
  long sum = 0;
  for (int round = 0; round < 12; round++) sum += weigh_parts(&parts[order[0]]) ^ long(mark_order(round));
  std::printf("%ld\n", sum);
}
