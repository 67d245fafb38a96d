// A thread: its stack starts in the C library's thread start, not in main.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static volatile int sink;

__attribute__((noinline, noclone)) void *work(void *argument) {
    sink += *(int *)argument;
    raise(SIGSTOP); // of this thread: raise() is pthread_kill() of oneself
    sink++;
    return NULL;
}

int main(void) {
    pthread_t thread;
    int argument = 1;
    pthread_create(&thread, NULL, work, &argument);
    pthread_join(thread, NULL);
    return sink == 0;
}
