// What must go on as before when functions are traced. Every line that it prints is always the same.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <string>

#define APART __attribute__((noinline))
#define OPAQUE __asm__ volatile("" ::: "memory")

namespace {

struct Guard {
  int *count;
  ~Guard() { ++*count; }
};

APART int throws(int x) {
  OPAQUE;
  if (x % 3 == 0) throw std::runtime_error("a third");
  return 2 * x;
}
APART int passes(int x, int *guards) {
  Guard guard{guards};
  return throws(x) + 1;
}
APART int catches(int x, int *guards) {
  try {
    return passes(x, guards);
  } catch (const std::exception &) {
    return -1;
  }
}
APART int throws_again(int x, int *guards) {
  try {
    return passes(x, guards);
  } catch (...) {
    throw;
  }
}
APART int catches_above(int x, int *guards) {
  try {
    return throws_again(x, guards);
  } catch (const std::runtime_error &error) {
    return static_cast<int>(std::strlen(error.what()));
  }
}

jmp_buf target;
APART int jumps(int x) {
  OPAQUE;
  if (x & 1) longjmp(target, 1);
  return x;
}
APART int jumps_below(int x) {
  int result = jumps(x);
  OPAQUE;
  return result + 1;
}

APART long fibonacci(int n) { return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2); }
APART long deep(int n) {
  OPAQUE;
  return n == 0 ? 0 : 1 + deep(n - 1);
}
APART double mixes(long a, long b, long c, long d, long e, long f, long g, long h, double i, float j) {
  OPAQUE;
  return a + 2 * b + 3 * c + 4 * d + 5 * e + 6 * f + 7 * g + 8 * h + i * j;
}
struct Large {
  long values[9];
};
APART Large by_value(Large large, int k) {
  large.values[k] += k;
  OPAQUE;
  return large;
}
typedef double Vector __attribute__((vector_size(32)));
__attribute__((noinline, target("avx"))) Vector vectors(Vector a, Vector b) {
  OPAQUE;
  return a * b + a;
}
__attribute__((noinline, target("avx"))) void call_vectors() {
  Vector product = {};
  for (int i = 0; i < 30000; i++) product = vectors(Vector{1, 2, 3, 4}, Vector{5, 6, 7, 8.0 + i % 2});
  printf("vectors %.0f %.0f\n", product[0], product[3]);
}
APART int sums(int count, ...) {
  va_list list;
  va_start(list, count);
  int sum = 0;
  for (int i = 0; i < count; i++) sum += va_arg(list, int);
  va_end(list);
  return sum;
}
APART int empty() {
  OPAQUE;
  return 7;
}
APART int tail(int x) {
  OPAQUE;
  return x > 0 ? empty() : sums(2, x, x);
}
APART int loops_at_entry(const char *text) {
  int n = 0;
  while (*text++) n++;
  return n;
}

APART void *ends_early(void *result) {
  OPAQUE;
  if (result) pthread_exit(result);
  return reinterpret_cast<void *>(8);
}
APART void *waits(void *) {
  for (;;) pause();
}
APART void *small(void *count) {
  fibonacci(5);
  __atomic_fetch_add(static_cast<int *>(count), 1, __ATOMIC_RELAXED);
  return nullptr;
}

volatile long handled;
APART void handler(int) { handled += fibonacci(4); }

}  // namespace

int main() {
  int guards = 0;
  long sum = 0;
  for (int i = 0; i < 3000; i++) sum += catches(i, &guards);
  printf("catch %ld %d\n", sum, guards);
  sum = 0;
  for (int i = 0; i < 3000; i++) sum += catches_above(i, &guards);
  printf("rethrow %ld %d\n", sum, guards);

  volatile long jumped = 0;
  for (volatile int i = 0; i < 100000; i++) {
    if (setjmp(target) == 0)
      jumped += jumps_below(i);
    else
      jumped -= 1;
  }
  printf("longjmp %ld\n", jumped);
  printf("recursion %ld %ld\n", fibonacci(20), deep(20000));
  Large large = {};
  large = by_value(large, 8);
  printf("arguments %.1f %ld\n", mixes(1, 2, 3, 4, 5, 6, 7, 8, 1.5, 2.0f), large.values[8]);
  if (__builtin_cpu_supports("avx"))
    call_vectors();
  else
    printf("vectors 6 40\n");
  printf("calls %d %d %d %d\n", sums(3, 1, 2, 3), tail(1), tail(-2), loops_at_entry("twelve chars"));

  pthread_t thread;
  void *result;
  for (long expected : {5L, 0L}) {
    pthread_create(&thread, nullptr, ends_early, reinterpret_cast<void *>(expected));
    pthread_join(thread, &result);
    printf("thread %ld\n", reinterpret_cast<long>(result));
  }
  pthread_create(&thread, nullptr, waits, nullptr);
  usleep(10000);
  pthread_cancel(thread);
  pthread_join(thread, &result);
  printf("cancelled %d\n", result == PTHREAD_CANCELED);
  int done = 0;
  for (int round = 0; round < 100; round++) {
    pthread_t threads[20];
    for (pthread_t &one : threads) pthread_create(&one, nullptr, small, &done);
    for (pthread_t one : threads) pthread_join(one, nullptr);
  }
  printf("threads %d\n", done);

  static char stack[1 << 16];
  stack_t alternative = {};
  alternative.ss_sp = stack;
  alternative.ss_size = sizeof stack;
  sigaltstack(&alternative, nullptr);
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGALRM, &action, nullptr);
  itimerval often = {{0, 200}, {0, 200}};
  setitimer(ITIMER_REAL, &often, nullptr);
  sum = 0;
  for (int i = 0; i < 50 || !handled; i++) sum = fibonacci(19);
  often = {};
  setitimer(ITIMER_REAL, &often, nullptr);
  printf("signals %ld %d\n", sum, handled > 0);
  fflush(stdout);

  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) _exit(fibonacci(11) == 89 && catches(3, &guards) == -1 ? i : 99);
    int status;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != i) printf("fork %d failed\n", i);
  }
  printf("forks\n");
  return 3;
}
