/* One thread allows itself no system call at all and works on: whatever makes one there ends the program. The other one works in rounds for the
 * seconds of the argument (5), and then says how many there were. */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

static long rounds;
static volatile int is_restricted;

/* Of different lengths, as the compiler would make one function of two that are the same. */
#define WORK(n) for (volatile long i = 0; i < (n); i++) asm volatile("")

__attribute__((noinline)) static void restricted(void) { WORK(2000000); }
__attribute__((noinline)) static void open_work(void) { WORK(1000000); }
__attribute__((noinline)) void serve(void) { rounds++; }

static void *restrict_itself(void *unused) {
  struct sock_filter filter[] = {BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {1, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) _exit(3);
  is_restricted = 1;
  for (;;) restricted();
  return unused;
}

int main(int argc, char **argv) {
  pthread_t thread;
  pthread_create(&thread, NULL, restrict_itself, NULL);
  while (!is_restricted) usleep(1000);
  time_t end = time(NULL) + (argc > 1 ? atoi(argv[1]) : 5);
  while (time(NULL) < end) {
    open_work();
    serve();
  }
  printf("rounds %ld\n", rounds);
  fflush(stdout);
  _exit(0);
}
