// histogram: two threads count into arrays that lie in the same cache lines; repaired, a page apart. unseen_histogram [repaired]
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

static bool repaired;

struct Bins {
  std::atomic<uint32_t> *first;
  int step;
};

// The bins of both threads by turns; repaired, each thread's in pages of its own.
static Bins bins_of(std::atomic<uint32_t> *all, int thread) {
  return repaired ? Bins{all + thread * 4096, 1} : Bins{all + thread, 2};
}

__attribute__((noinline)) static void count_pixels(Bins bins, const std::vector<uint8_t> &pixels) {
  for (uint8_t pixel : pixels) bins.first[(pixel & 7) * bins.step].fetch_add(1, std::memory_order_relaxed);
}

int main(int count, char **) {
  repaired = count > 1;
  std::vector<uint8_t> pixels(1 << 16);
  uint32_t seed = 1;
  for (auto &pixel : pixels) pixel = (seed = seed * 1664525 + 1013904223) >> 24;
  auto all = std::make_unique<std::atomic<uint32_t>[]>(3 * 4096);
  std::vector<std::jthread> threads;
  for (int thread = 0; thread < 2; thread++)
    threads.emplace_back([&, thread] {
      for (int picture = 0; picture < 2500; picture++) count_pixels(bins_of(all.get(), thread), pixels);
    });
  threads.clear();
  std::printf("%u\n", all[0].load());
}
