/* Long jumps out of nested calls, from signal handlers on a stack of their own too; vfork, fork in a
 * thread, cancellation, pthread_exit and destructors of thread-local values. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static unsigned long sum;
static pthread_key_t key;

__attribute__((noinline)) static int jump(int depth)
{
    if (depth == 0)
        siglongjmp(back, 7);
    return jump(depth - 1) + 1;
}

__attribute__((noinline)) static void handler(int signal)
{
    sum = sum * 31 + signal;
    if (sum % 2)
        siglongjmp(back, 9);
}

__attribute__((noinline)) static int outer(int n)
{
    int code = sigsetjmp(back, 1);
    if (code)
        return code;
    if (n % 3 == 0)
        raise(SIGUSR1);
    return jump(n % 9);
}

static void ended(void *value)
{
    __atomic_fetch_add(&sum, (unsigned long)value, __ATOMIC_RELAXED);
}

__attribute__((noinline)) static void *leaves(void *value)
{
    pthread_setspecific(key, value);
    if ((long)value % 2)
        pthread_exit(value);
    for (;;)
        pause();
}

static void *forks(void *value)
{
    int status;
    pid_t child = fork();
    if (child == 0)
        _exit(outer(4));
    waitpid(child, &status, 0);
    child = vfork();
    if (child == 0)
        _exit(21);
    int other;
    waitpid(child, &other, 0);
    return (void *)(long)(WEXITSTATUS(status) + WEXITSTATUS(other) + (long)value);
}

int main(void)
{
    static char room[64 << 10];
    stack_t other = {.ss_sp = room, .ss_size = sizeof room};
    sigaltstack(&other, NULL);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGUSR1, &action, NULL);
    for (int n = 0; n < 400; n++)
        sum = sum * 31 + outer(n);
    pthread_key_create(&key, ended);
    for (long n = 0; n < 8; n++) {
        pthread_t thread;
        void *result;
        pthread_create(&thread, NULL, n < 6 ? leaves : forks, (void *)n + 1);
        if (n < 6 && n % 2)
            pthread_cancel(thread);
        pthread_join(thread, &result);
        sum = sum * 31 + (result == PTHREAD_CANCELED ? 99 : (long)result);
    }
    printf("%lu\n", sum);
    return 11;
}
