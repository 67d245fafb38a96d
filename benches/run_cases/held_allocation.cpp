// allocation: each line of a text becomes a list of new strings; repaired, of views into it. held_allocation [repaired]
#include <cstdio>
#include <list>
#include <string>
#include <string_view>

template <typename Text>
__attribute__((noinline)) static unsigned long count_fields(std::string_view line) {
  std::list<Text> fields;
  for (size_t at = 0; at < line.size();) {
    size_t end = line.find(',', at);
    if (end == line.npos) end = line.size();
    fields.emplace_back(line.substr(at, end - at));
    at = end + 1;
  }
  unsigned long sum = 0;
  for (const auto &field : fields) sum += field.size();
  return sum;
}

__attribute__((noinline)) static unsigned long measure_fields(std::string_view line) {
  unsigned long sum = 0;
  for (size_t at = 0; at < line.size();) {
    size_t end = line.find(',', at);
    if (end == line.npos) end = line.size();
    sum += end - at;
    at = end + 1;
  }
  return sum;
}

__attribute__((noinline)) static unsigned long digest(unsigned long seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}

int main(int count, char **) {
  std::string line;
  for (int i = 0; i < 40; i++) line += "a field that is too long to be in the string itself,";
  unsigned long sum = 0;
  for (int i = 0; i < 300000; i++) {
    sum += count > 1 ? measure_fields(line) : count_fields<std::string>(line);
    sum += digest(sum, 300);
  }
  std::printf("%lu\n", sum);
}
