// What the tables of the pipeline models are checked by: cycles of chains of instructions, where
// each needs the one before, and of groups that do not. The unit is a third of an `imul`, which takes
// three cycles on every processor there is a table of; so the clock need not be known. x86-64.
#include <stdint.h>
#include <stdio.h>
#include <time.h>

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

#define TIMES 200000
#define EACH 64
// The least of several runs: others only add.
#define MEASURE(result, body)                                                                      \
    do {                                                                                           \
        result = 1e9;                                                                              \
        for (int run = 0; run < 7; run++) {                                                        \
            double start = seconds();                                                              \
            for (long i = 0; i < TIMES; i++)                                                       \
                __asm__ volatile(".rept 64\n\t" body "\n\t.endr" ::                               \
                                     : "rax", "rbx", "rcx", "rdx", "rsi", "r8", "r9", "cc");      \
            double each = (seconds() - start) / ((double)TIMES * EACH);                            \
            result = each < result ? each : result;                                                \
        }                                                                                          \
    } while (0)

#define SHOW(name, expected, body)                                                                 \
    do {                                                                                           \
        double took;                                                                               \
        MEASURE(took, body);                                                                       \
        printf("%-34s %6.2f   %s\n", name, took / cycle, expected);                                \
    } while (0)

int main(void) {
    double imul;
    MEASURE(imul, "imul %%rax, %%rax");
    double cycle = imul / 3;
    printf("%-34s %6s   %s\n", "", "cycles", "what the model says");
    SHOW("add %rbx, %rax (chain)", "1", "add %%rbx, %%rax");
    SHOW("add $1, %rax (chain)", "1 (less where renaming adds)", "add $1, %%rax");
    SHOW("mov %rax,%rbx; mov %rbx,%rax", "0 each (renamed), issue bound", "mov %%rax, %%rbx\n\tmov %%rbx, %%rax");
    SHOW("xor %eax, %eax", "0 (renamed), issue bound", "xor %%eax, %%eax");
    SHOW("push %rax; pop %rax", "a store forwarded", "push %%rax\n\tpop %%rax");
    SHOW("imul, 2 independent", "2 (one unit)", "imul $3, %%r8, %%rax\n\timul $3, %%r8, %%rcx");
    SHOW("lea, 4 independent", "issue or ports", "lea 1(%%r8), %%rax\n\tlea 1(%%r8), %%rcx\n\tlea 1(%%r8), %%rdx\n\tlea 1(%%r8), %%rsi");
    SHOW("xor %edx,%edx; div %rbx (chain)", "div's latency", "mov $3, %%ebx\n\txor %%edx, %%edx\n\tdiv %%rbx");
    SHOW("div %rbx, independent, small", "the divider", "mov $3, %%ebx\n\tmov $7, %%eax\n\txor %%edx, %%edx\n\tdiv %%rbx");
    SHOW("div %rbx, independent, large", "the divider", "mov $3, %%ebx\n\tmov $-1, %%rax\n\txor %%edx, %%edx\n\tdiv %%rbx");
    SHOW("div %ebx, independent, small", "the divider", "mov $3, %%ebx\n\tmov $7, %%eax\n\txor %%edx, %%edx\n\tdiv %%ebx");
    return 0;
}
