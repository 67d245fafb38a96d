/* Coroutines by own assembly, as libco and Boost.Context have it: six registers and the stack pointer. */
#include <stdio.h>
#include <stdlib.h>

void switch_to(void **from, void *to);
__asm__(".text\n.globl switch_to\n.type switch_to,@function\nswitch_to:\n"
        ".cfi_startproc\n"
        "push %rbp\npush %rbx\npush %r12\npush %r13\npush %r14\npush %r15\n"
        "mov %rsp, (%rdi)\nmov %rsi, %rsp\n"
        "pop %r15\npop %r14\npop %r13\npop %r12\npop %rbx\npop %rbp\nret\n"
        ".cfi_endproc\n.size switch_to, .-switch_to\n");

enum { COROUTINES = 5, WORDS = 8192 };
static void *scheduler, *contexts[COROUTINES];
static int current, living = COROUTINES;
static unsigned long sum;

__attribute__((noinline)) static void yield(void)
{
    switch_to(&contexts[current], scheduler);
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

static void run(void)
{
    int number = current;
    for (int n = 0; n < 20; n++) {
        unsigned long found = deep(number * 100 + n, number % 3 + 2);
        sum = sum * 33 + found;
    }
    living--;
    for (;;)
        yield();
}

__attribute__((noinline)) static void resume(int number)
{
    current = number;
    switch_to(&scheduler, contexts[number]);
}

int main(void)
{
    for (int n = 0; n < COROUTINES; n++) {
        void **stack = (void **)calloc(WORDS, 8) + WORDS - 2;
        *--stack = NULL;
        *--stack = (void *)run;
        contexts[n] = stack - 6;
    }
    for (int step = 0; living > 0; step++)
        resume((step * 3 + step / 7) % COROUTINES);
    printf("%lu\n", sum);
    return 0;
}
