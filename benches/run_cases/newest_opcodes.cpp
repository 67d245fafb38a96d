// opcodes: a small machine runs instructions in an order that nobody can foresee; repaired, equal ones follow each other. newest_opcodes [repaired]
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

struct Machine {
  uint64_t sum = 1, other = 7, flips = 0;
  __attribute__((noinline)) void run_opcodes(const std::vector<uint8_t> &program);
};

void Machine::run_opcodes(const std::vector<uint8_t> &program) {
  for (uint8_t opcode : program) {
    switch (opcode) {
    case 0: sum += other; break;
    case 1: sum ^= other << 3; break;
    case 2: other += sum >> 5; break;
    case 3: flips++; break;
    case 4: sum = ~sum; break;
    case 5: other ^= flips; break;
    case 6: sum -= flips; break;
    case 7: other = other << 1 | other >> 63; break;
    }
    __asm__ volatile("" : "+r"(sum), "+r"(other), "+r"(flips));
  }
}

__attribute__((noinline)) static uint64_t seal(uint64_t sum) {
  for (int i = 0; i < 6000000; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

int main(int count, char **) {
  std::vector<uint8_t> program(4000000);
  std::mt19937 chance(11);
  for (auto &opcode : program) opcode = chance() % 8;
  if (count > 1) std::sort(program.begin(), program.end());
  Machine machine;
  uint64_t sum = 0;
  for (int round = 0; round < 40; round++) {
    machine.run_opcodes(program);
    if (round % 8 == 0) sum ^= seal(machine.sum);
  }
  std::printf("%lu %lu\n", machine.sum, sum);
}
