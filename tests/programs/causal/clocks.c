/* Runs for some seconds by its own clock, one thread busy and one that sleeps until the next of equal times. Prints how
 * long that was by the program's clock and by the kernel's (asked by a system call, without the C library), how often
 * a clock was behind what another thread had read, and the mean and the worst of how late the sleeps ended, in
 * milliseconds. */
#include "causal.h"
#include <sys/syscall.h>

static _Atomic double latest;
static atomic_long backwards;

static double kernel_now(void) {
  struct timespec t;
  syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What no thread has read yet when this one reads it may be read by another one in between: only what was stored before. */
static double checked_now(void) {
  double before = atomic_load(&latest), time = now();
  if (time < before) atomic_fetch_add(&backwards, 1);
  while (before < time && !atomic_compare_exchange_weak(&latest, &before, time)) {}
  return time;
}

static void *busy(void *unused) {
  while (!atomic_load(&stop)) {
    WORK(20000); /* line: busy */
    checked_now();
    VITALFEW_PROGRESS("round");
  }
  return unused;
}

int main(int argc, char **argv) {
  setup(argc, argv);
  double kernel = kernel_now();
  pthread_t thread;
  pthread_create(&thread, NULL, busy, NULL);
  double due = started, worst = 0, sum = 0;
  long sleeps = 0;
  while (due - started < knob_seconds) {
    due += 0.005;
    struct timespec t = {(time_t)due, (long)((due - (double)(time_t)due) * 1e9)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
    double late = checked_now() - due;
    if (late > worst) worst = late;
    sum += late;
    sleeps++;
  }
  double program = now() - started;
  kernel = kernel_now() - kernel;
  atomic_store(&stop, 1);
  pthread_join(thread, NULL);
  printf("program %.4f kernel %.4f backwards %ld late %.3f worst %.3f\n", program, kernel,
         atomic_load(&backwards), 1e3 * sum / (double)sleeps, 1e3 * worst);
  return 0;
}
