/* A thread made behind the C library's back, a program that closes every descriptor, and one that
 * restricts its system calls. */
#define _GNU_SOURCE
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sum;

__attribute__((noinline)) static unsigned long step(unsigned long value)
{
    return value * 6364136223846793005 + 1442695040888963407;
}

static int cloned(void *value)
{
    for (int n = 0; n < 1000; n++)
        sum = step(sum + (unsigned long)value);
    return 0;
}

int main(void)
{
    char *stack = malloc(64 << 10);
    int status;
    int child = clone(cloned, stack + (64 << 10), CLONE_VM | SIGCHLD, (void *)3);
    waitpid(child, &status, 0);
    for (int descriptor = 3; descriptor < 1024; descriptor++)
        close(descriptor);
    int copy = dup(1);
    sum = step(sum + copy);
    for (int n = 0; n < 1000; n++)
        sum = step(sum);
    printf("%lu %d\n", sum, copy);
    fflush(stdout);
    prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
    unsigned long last = step(sum);
    char digit = '0' + last % 10;
    write(1, &digit, 1);
    syscall(SYS_exit, 9);
}
