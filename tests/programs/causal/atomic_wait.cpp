// Two threads that hand an item back and forth by C++20's atomic waits: both are on the path.
#include "../../../include/vitalfew.h"
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

#define WORK(n)                                                   \
  for (long left = (n), x = 1; left > 0; left--) {                \
    x = x * 2862933555777941757l + 1;                             \
    __asm__ volatile("" : "+r"(x));                               \
  }

static long work(int argc, char **argv, const char *line, long n) {
  bool ours = argc > 2 && std::strcmp(argv[1], line) == 0;
  return ours ? n * (100 - std::atol(argv[2])) / 100 : n;
}

int main(int argc, char **argv) {
  using clock = std::chrono::steady_clock;
  double seconds = argc > 3 ? std::atof(argv[3]) : 10;
  long to = work(argc, argv, "ping", 2400000), fro = work(argc, argv, "pong", 1200000);
  std::atomic<int> turn{0};
  long visits = 0;
  std::thread pong([&] {
    for (;;) {
      turn.wait(0);
      WORK(fro); /* line: pong */
      turn.store(0);
      turn.notify_one();
    }
  });
  auto start = clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(clock::now() - start).count(); };
  while (elapsed() < seconds) {
    WORK(to); /* line: ping */
    turn.store(1);
    turn.notify_one();
    turn.wait(1);
    VITALFEW_PROGRESS("exchange");
    visits++;
  }
  std::printf("rate %.4f\n", double(visits) / elapsed());
  std::fflush(stdout);
  _exit(0);
}
