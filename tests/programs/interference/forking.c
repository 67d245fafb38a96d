/* Works in rounds, and forks children that do, too, until it is told to end; says at the end how many of them a signal has ended. */
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t stop;

static void end(int unused) { stop = unused; }

#define WORK(n) for (volatile long i = 0; i < (n); i++) asm volatile("")

__attribute__((noinline)) static void slow(void) { WORK(200000); }
__attribute__((noinline)) static void quick(void) { WORK(100000); }

int main(void) {
  int children = 0, crashed = 0, status;
  signal(SIGTERM, end);
  while (!stop) {
    slow();
    quick();
    usleep(20000);
    if (fork() == 0) {
      for (int round = 0; round < 60; round++) {
        slow();
        quick();
        usleep(50000);
      }
      _exit(0);
    }
    children++;
    while (waitpid(-1, &status, WNOHANG) > 0)
      crashed += WIFSIGNALED(status);
  }
  while (wait(&status) > 0)
    crashed += WIFSIGNALED(status);
  printf("children %d crashed %d\n", children, crashed);
  return 0;
}
