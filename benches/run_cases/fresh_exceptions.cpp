// exceptions: what is no number is found out by an exception; repaired, by a return value. fresh_exceptions [repaired]
#include <charconv>
#include <cstdio>
#include <stdexcept>
#include <string>

static bool repaired;

__attribute__((noinline)) static int parse_number(const std::string &field) {
  int value = 0;
  auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), value);
  if (error == std::errc{}) return value;
  if (repaired) return -1;
  throw std::invalid_argument(field);
}

static int number_or_none(const std::string &field) {
  try {
    return parse_number(field);
  } catch (const std::invalid_argument &) {
    return -1;
  }
}

__attribute__((noinline)) static unsigned long digest(unsigned long seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}

int main(int count, char **) {
  repaired = count > 1;
  unsigned long sum = 0;
  for (int i = 0; i < 1500000; i++) {
    sum += number_or_none(i % 3 ? "none" : std::to_string(i));
    sum += digest(sum, 40);
  }
  std::printf("%lu\n", sum);
}
