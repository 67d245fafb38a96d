// names: a table of names is handed over by value; repaired, by reference. further_names [repaired]
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

using Names = std::vector<std::string>;

__attribute__((noinline)) static size_t length_at(const Names &names, size_t at) { return names[at % names.size()].size(); }

__attribute__((noinline)) static size_t length_of_copy(Names names, size_t at) { return length_at(names, at); }

__attribute__((noinline)) static uint64_t sign(uint64_t sum) {
  for (int i = 0; i < 12000; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

int main(int count, char **) {
  const bool repaired = count > 1;
  Names names;
  for (int i = 0; i < 2000; i++) names.push_back("a name that is too long to be kept in place " + std::to_string(i));
  uint64_t sum = 0;
  for (size_t i = 0; i < 6000; i++) {
    sum += repaired ? length_at(names, i) : length_of_copy(names, i);
    if (i % 2 == 0) sum ^= sign(sum);
  }
  std::printf("%lu\n", sum);
}
