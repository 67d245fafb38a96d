// turns: of two workers that meet after each turn, one has most of the cells; repaired, each has half of them. newest_turns [repaired]
#include <barrier>
#include <cstdio>
#include <thread>
#include <vector>

class World {
  std::vector<unsigned> cells = std::vector<unsigned>(60000, 3);
  std::barrier<> turn{2};

public:
  __attribute__((noinline)) void advance_cells(size_t begin, size_t end) {
    for (size_t at = begin; at < end; at++) {
      unsigned cell = cells[at];
      for (int i = 0; i < 12; i++) cell = cell * 1664525u + 1013904223u + (cell >> 9);
      cells[at] = cell;
    }
  }
  void live(bool first, size_t share) {
    for (int i = 0; i < 2500; i++) {
      first ? advance_cells(0, share) : advance_cells(share, cells.size());
      turn.arrive_and_wait();
    }
  }
  size_t size() const { return cells.size(); }
  unsigned first_cell() const { return cells[0]; }
};

int main(int count, char **) {
  World world;
  const size_t share = count > 1 ? world.size() / 2 : world.size() * 9 / 10;
  std::thread one([&] { world.live(true, share); });
  std::thread other([&] { world.live(false, share); });
  one.join();
  other.join();
  std::printf("%u\n", world.first_cell());
}
