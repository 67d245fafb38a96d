// tokens: each record is split into strings of its own; repaired, into views of it. latest_tokens [repaired]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

template <typename Text> __attribute__((noinline)) static std::vector<Text> split_record(const std::string &record) {
  std::vector<Text> tokens;
  size_t begin = 0;
  for (size_t end; (end = record.find(';', begin)) != std::string::npos; begin = end + 1)
    tokens.push_back(Text(record.data() + begin, end - begin));
  return tokens;
}

template <typename Text> static size_t longest_of(const std::string &record) {
  size_t longest = 0;
  for (const auto &token : split_record<Text>(record)) longest = std::max(longest, token.size());
  return longest;
}

__attribute__((noinline)) static uint64_t stamp(uint64_t sum) {
  for (int i = 0; i < 250; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

int main(int count, char **) {
  const bool repaired = count > 1;
  std::string record;
  for (int i = 0; i < 60; i++) record += "a token that does not fit into a short string " + std::to_string(i) + ";";
  uint64_t sum = 0;
  for (int i = 0; i < 300000; i++) {
    sum += repaired ? longest_of<std::string_view>(record) : longest_of<std::string>(record);
    sum ^= stamp(sum);
  }
  std::printf("%lu\n", sum);
}
