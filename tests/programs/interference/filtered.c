// Allows itself three system calls, and goes on calling functions.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define APART __attribute__((noinline))
#define ALLOW(call) \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_##call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

APART long work(long x) {
  __asm__ volatile("" : "+r"(x));
  return 3 * x + 1;
}

APART long late(long x) {
  __asm__ volatile("" : "+r"(x));
  return 5 * x + 1;
}

int main(void) {
  long sum = 0;
  for (int i = 0; i < 1000; i++) sum += work(i);
  struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                 ALLOW(write), ALLOW(exit), ALLOW(exit_group),
                                 BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS)};
  struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 3;
  for (int i = 0; i < 100000; i++) sum += work(i) + late(i);
  char text[32];
  int length = snprintf(text, sizeof text, "%ld\n", sum);
  _exit(write(1, text, length) == length ? 7 : 4);
}
