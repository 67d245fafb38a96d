// tree: prices of two million articles are looked up in a tree; repaired, in an array by number. unseen_tree [repaired]
#include <cstdint>
#include <cstdio>
#include <map>
#include <vector>

enum { ARTICLES = 2000000, ORDERS = 1500000 };
static std::map<uint32_t, uint32_t> tree;
static std::vector<uint32_t> table;
static bool repaired;

__attribute__((noinline)) static uint64_t price_of(uint32_t article) {
  return repaired ? table[article] : tree.find(article)->second;
}

__attribute__((noinline)) static uint64_t digest(uint64_t seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}

int main(int count, char **) {
  repaired = count > 1;
  if (repaired) table.resize(ARTICLES, 7);
  else
    for (uint32_t i = 0; i < ARTICLES; i++) tree.emplace_hint(tree.end(), i, i % 97);
  uint32_t seed = 7;
  uint64_t sum = 0;
  for (int i = 0; i < ORDERS; i++) {
    seed = seed * 1664525 + 1013904223;
    sum += price_of((seed >> 4) % ARTICLES);
    sum += digest(sum, 20);
  }
  std::printf("%lu\n", sum);
}
