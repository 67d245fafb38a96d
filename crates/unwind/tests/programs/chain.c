// A chain of calls through the C library, a signal handler and functions that realign their stack.
// It stops itself: at the start of what a debugger is to step through, deep inside, and at the end.
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <alloca.h>

#define KEEP __attribute__((noinline, noclone))
static volatile int sink;
#ifndef ALIGNMENT
#define ALIGNMENT 64
#endif

KEEP int deepest(int n) {
    sink += n;
    raise(SIGSTOP);
    return sink;
}

KEEP void handler(int signal) {
    sink += deepest(signal);
}

// Realigned if more than 16 bytes are asked for: the frame's address is kept in another register, then in memory.
KEEP int realigned(int n) {
    int aligned[16] __attribute__((aligned(ALIGNMENT)));
    memset(aligned, n, sizeof aligned);
    char *grown = alloca(n + 16);
    memset(grown, n, n + 16);
    raise(SIGUSR1);
    return aligned[n & 15] + grown[n];
}

KEEP int compare(const void *a, const void *b) {
    int x = *(const int *)a, y = *(const int *)b;
    if (x == 1 && y == 2) sink += realigned(x);
    return (x > y) - (x < y);
}

KEEP int recurse(int depth, int *numbers, size_t n) {
    if (depth > 0) return recurse(depth - 1, numbers, n) + sink;
    qsort(numbers, n, sizeof *numbers, compare);
    return numbers[0];
}

int main(int argc, char **argv) {
    (void)argv;
    char text[64];
    int numbers[] = {1, 2, 3};
    signal(SIGUSR1, handler);
    raise(SIGSTOP);
    int result = recurse(argc + 10, numbers, 3);
    snprintf(text, sizeof text, "%d %s\n", result, getenv("HOME") ? "home" : "none");
    sink += (int)strlen(text);
    raise(SIGSTOP);
    return 0;
}
