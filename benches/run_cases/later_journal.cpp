// journal: two threads hold the journal's lock while they put an entry on the disk for sure; repaired, entries go there by the dozen.
// later_journal [repaired]
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>
#include <unistd.h>

static bool repaired;

static unsigned long mix(unsigned long sum, int rounds) {
  for (int i = 0; i < rounds; i++) {
    sum = 0xfedcba9876543210u / (sum | 1) + i;
    __asm__ volatile("" : "+r"(sum));
  }
  return sum;
}

class Journal {
  std::mutex lock;
  int file, entries = 0;

public:
  Journal() {
    char name[] = "later_journal_XXXXXX";
    file = mkstemp(name);
    unlink(name);
  }
  __attribute__((noinline)) void append_entry(const std::string &text) {
    std::lock_guard<std::mutex> held(lock);
    if (write(file, text.data(), text.size()) < 0) abort();
    if (!repaired || ++entries % 12 == 0) fsync(file);
  }
};

int main(int count, char **) {
  repaired = count > 1;
  Journal journal;
  auto work = [&journal](unsigned long seed) {
    for (int i = 0; i < 400; i++) journal.append_entry("entry " + std::to_string(mix(seed + i, 50000)) + "\n");
  };
  std::thread one(work, 1), other(work, 1000);
  one.join();
  other.join();
}
