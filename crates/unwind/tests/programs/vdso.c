// Steps into the vDSO.
#include <signal.h>
#include <time.h>

__attribute__((noinline, noclone)) long now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_nsec;
}

int main(void) {
    volatile long sink = now();
    raise(SIGSTOP);
    sink += now();
    raise(SIGSTOP);
    return sink == 0;
}
