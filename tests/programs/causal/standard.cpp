/* Threads that meet by what C++'s own library has, written when the method had been tuned:
 *
 *     standard [LINE [PERCENT [SECONDS [KIND [MICROSECONDS]]]]]
 *
 * KIND is `async` (two futures and what waits for both), `condition` (two producers fill a queue of four for one consumer),
 * `shared` (one writes, two read: shared_mutex), `permits` (counting_semaphore: two threads take turns at three buffers),
 * `phases` (std::barrier of two unequal threads) or `guarded` (three threads, two unequal sections of one mutex). */
#include "causal.h"
#include <barrier>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>

static long units;

static long part(const char *line, long percent) { return work(line, units * percent / 100); }

static void count_piece() {
  VITALFEW_PROGRESS("piece");
  progress();
}

static long left_half(long n) {
  WORK(n); /* line: left_half */
  return n;
}

static long right_half(long n) {
  WORK(n); /* line: right_half */
  return n;
}

static void run_async() {
  for (long l = part("left_half", 70), r = part("right_half", 45), both = part("joining", 30);;) {
    auto other = std::async(std::launch::async, left_half, l);
    right_half(r);
    other.get();
    WORK(both); /* line: joining */
    count_piece();
  }
}

static std::mutex queue_lock;
static std::condition_variable not_full, not_empty;
static std::deque<int> items;

static void produce() {
  for (long n = part("filling", 120);;) {
    WORK(n); /* line: filling */
    std::unique_lock held(queue_lock);
    not_full.wait(held, [] { return items.size() < 4; });
    items.push_back(1);
    not_empty.notify_one();
  }
}

static void consume() {
  for (long n = part("emptying", 40);;) {
    std::unique_lock held(queue_lock);
    not_empty.wait(held, [] { return !items.empty(); });
    items.pop_front();
    not_full.notify_one();
    held.unlock();
    WORK(n); /* line: emptying */
    count_piece();
  }
}

static std::shared_mutex table;

static void read_table() {
  for (long inside = part("looking", 40), after = part("using", 60);;) {
    table.lock_shared();
    WORK(inside); /* line: looking */
    table.unlock_shared();
    WORK(after); /* line: using */
    count_piece();
  }
}

static void write_table() {
  for (long before = part("preparing", 80), inside = part("changing", 30);;) {
    WORK(before); /* line: preparing */
    table.lock();
    WORK(inside); /* line: changing */
    table.unlock();
  }
}

static std::counting_semaphore<3> empty_buffers(3), full_buffers(0);

static void fill_buffers() {
  for (long n = part("packing", 50);;) {
    empty_buffers.acquire();
    WORK(n); /* line: packing */
    full_buffers.release();
  }
}

static void drain_buffers() {
  for (long n = part("sending", 75);;) {
    full_buffers.acquire();
    WORK(n); /* line: sending */
    empty_buffers.release();
    count_piece();
  }
}

static std::barrier meeting(2);

static void slow_phase() {
  for (long n = part("slow", 80), alone = part("between", 20);;) {
    WORK(n); /* line: slow */
    meeting.arrive_and_wait();
    WORK(alone); /* line: between */
    count_piece();
    meeting.arrive_and_wait();
  }
}

static void fast_phase() {
  for (long n = part("fast", 50);;) {
    WORK(n); /* line: fast */
    meeting.arrive_and_wait();
    meeting.arrive_and_wait();
  }
}

static std::mutex guard;

static void use_guarded() {
  for (long one = part("section_one", 30), free = part("unguarded", 50), two = part("section_two", 12);;) {
    {
      std::scoped_lock held(guard);
      WORK(one); /* line: section_one */
    }
    WORK(free); /* line: unguarded */
    {
      std::scoped_lock held(guard);
      WORK(two); /* line: section_two */
    }
    count_piece();
  }
}

struct kind {
  const char *name;
  void (*threads[4])();
};

static const struct kind kinds[] = {
    {"async", {run_async}},
    {"condition", {produce, produce, consume}},
    {"shared", {read_table, read_table, write_table}},
    {"permits", {fill_buffers, drain_buffers}},
    {"phases", {slow_phase, fast_phase}},
    {"guarded", {use_guarded, use_guarded, use_guarded}},
};

int main(int argc, char **argv) {
  setup(argc, argv);
  std::string name = argc > 4 ? argv[4] : "async";
  units = 1000 * (argc > 5 ? atol(argv[5]) : 1000);
  for (const kind &kind : kinds)
    if (name == kind.name)
      for (int i = 0; i < 4 && kind.threads[i]; i++) std::thread(kind.threads[i]).detach();
  run_for_a_while();
  return finish();
}
