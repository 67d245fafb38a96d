/* Coroutines by swapcontext that yield in the middle of nested calls: on stacks from malloc, or
 * (any argument) on arrays within the frame of main. */
#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

enum { COROUTINES = 4, SIZE = 64 << 10 };
static ucontext_t scheduler, contexts[COROUTINES];
static int current, living = COROUTINES;
static unsigned long sum;

__attribute__((noinline)) static void yield(void)
{
    swapcontext(&contexts[current], &scheduler);
}

__attribute__((noinline)) static unsigned long deep(unsigned long value, int depth)
{
    if (depth == 0) {
        yield();
        return value * 31 + 7;
    }
    unsigned long left = deep(value + depth, depth - 1);
    if (value % 3 == 0)
        yield();
    return left ^ deep(left, depth - 1);
}

static void run(int number)
{
    for (int n = 0; n < 20; n++) {
        unsigned long found = deep(number * 100 + n, number % 3 + 2);
        sum = sum * 33 + found;
    }
    living--;
}

__attribute__((noinline)) static int next(int after)
{
    return (after * 7 + 3) % COROUTINES;
}

int main(int count, char **arguments)
{
    (void)arguments;
    char own[COROUTINES][SIZE];
    int done[COROUTINES] = {0};
    for (int n = 0; n < COROUTINES; n++) {
        getcontext(&contexts[n]);
        contexts[n].uc_stack.ss_sp = count > 1 ? own[n] : malloc(SIZE);
        contexts[n].uc_stack.ss_size = SIZE;
        contexts[n].uc_link = &scheduler;
        makecontext(&contexts[n], (void (*)(void))run, 1, n);
    }
    for (int step = 0; living > 0; step++) {
        current = step % 5 == 4 ? next(current) : (current + 1) % COROUTINES;
        if (done[current])
            continue;
        int before = living;
        swapcontext(&scheduler, &contexts[current]);
        done[current] = living < before;
    }
    printf("%lu\n", sum);
    return 0;
}
