// films: the last task of a pool is a film that one thread encodes alone; repaired, its scenes are tasks; doubled, it has half as many
// pictures. doubled_films [repaired | doubled]
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <mutex>
#include <queue>
#include <string_view>
#include <thread>
#include <vector>

constexpr int SIDE = 256, PHOTOS = 1000, PICTURES = 9000, SCENES = 40;

using Picture = std::vector<uint8_t>;

class Pool {
  std::queue<std::function<void()>> tasks;
  std::mutex lock;
  std::condition_variable added;
  bool ended = false;
  std::vector<std::thread> workers;

  void work() {
    for (;;) {
      std::unique_lock guard(lock);
      added.wait(guard, [this] { return ended || !tasks.empty(); });
      if (tasks.empty()) return;
      auto task = std::move(tasks.front());
      tasks.pop();
      guard.unlock();
      task();
    }
  }

public:
  explicit Pool(int threads) {
    for (int i = 0; i < threads; i++) workers.emplace_back([this] { work(); });
  }
  void add(std::function<void()> task) {
    std::lock_guard guard(lock);
    tasks.push(std::move(task));
    added.notify_one();
  }
  void finish() {
    {
      std::lock_guard guard(lock);
      ended = true;
    }
    added.notify_all();
    for (auto &worker : workers) worker.join();
  }
};

struct Library {
  std::mutex lock;
  uint64_t bytes = 0, files = 0;
  void store(uint64_t length) {
    std::lock_guard guard(lock);
    bytes += length;
    files++;
  }
};

__attribute__((noinline)) static Picture load_picture(uint32_t number) {
  Picture picture(SIDE * SIDE);
  uint32_t seed = number * 2654435761u;
  for (int y = 0; y < SIDE; y++)
    for (int x = 0; x < SIDE; x++) {
      seed = seed * 1664525 + 1013904223;
      picture[y * SIDE + x] = uint8_t((x * (number % 5 + 1) + y) / 4 + (seed >> 29));
    }
  return picture;
}

__attribute__((noinline)) static void sharpen_photo(Picture &picture) {
  const Picture before = picture;
  for (int y = 1; y < SIDE - 1; y++)
    for (int x = 1; x < SIDE - 1; x++) {
      int at = y * SIDE + x;
      int sum = 5 * before[at] - before[at - 1] - before[at + 1] - before[at - SIDE] - before[at + SIDE];
      picture[at] = uint8_t(sum < 0 ? 0 : sum > 255 ? 255 : sum);
    }
}

__attribute__((noinline)) static uint64_t pack_photo(const Picture &picture) {
  uint64_t length = 0;
  for (int y = 0; y < SIDE; y++)
    for (int x = 1; x < SIDE; x++) {
      int apart = std::abs(picture[y * SIDE + x] - picture[y * SIDE + x - 1]);
      length += apart < 2 ? 1 : 2 + std::ilogb(float(apart));
    }
  return length / 8;
}

// Encodes pictures of a film: each by how its blocks moved since the one before.
__attribute__((noinline)) static uint64_t encode_film(uint32_t begin, uint32_t end, const Picture &key) {
  uint64_t length = 0;
  for (uint32_t number = begin; number < end; number++)
    for (int block = 0; block < SIDE / 8; block++) {
      int best = 1 << 30;
      for (int shift = -4; shift <= 4; shift++) {
        int apart = 0;
        for (int at = 0; at < 8 * SIDE / 4; at++) {
          int here = (block * SIDE * 2 + at + int(number)) & (SIDE * SIDE - 1);
          apart += std::abs(key[here] - key[(here + shift * 3 + int(number % 7)) & (SIDE * SIDE - 1)]);
        }
        best = std::min(best, apart + std::abs(shift));
      }
      length += uint64_t(best) / 64 + 4;
    }
  return length;
}

int main(int count, char **words) {
  const std::string_view form = count > 1 ? words[1] : "";
  const uint32_t pictures = form == "doubled" ? PICTURES / 2 : PICTURES;
  Library library;
  const Picture key = load_picture(7);
  Pool pool(2);
  for (uint32_t number = 0; number < PHOTOS; number++)
    pool.add([&library, number] {
      Picture photo = load_picture(number);
      for (int pass = 0; pass < 3; pass++) sharpen_photo(photo);
      library.store(pack_photo(photo));
    });
  const uint32_t parts = form == "repaired" ? SCENES : 1;
  for (uint32_t part = 0; part < parts; part++)
    pool.add([&, part] { library.store(encode_film(pictures * part / parts, pictures * (part + 1) / parts, key)); });
  pool.finish();
  std::printf("%lu files, %lu bytes\n", library.files, library.bytes);
}
