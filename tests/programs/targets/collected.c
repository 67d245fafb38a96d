/* Lists whose only references are in registers and on stacks while the collector runs: a cell that it
 * takes away too early changes the sum. */
#include <gc.h>
#include <stdio.h>

struct cell {
    unsigned long value;
    struct cell *next;
};

__attribute__((noinline)) static struct cell *cell(unsigned long value, struct cell *next)
{
    struct cell *made = GC_MALLOC(sizeof *made);
    made->value = value;
    made->next = next;
    return made;
}

__attribute__((noinline)) static struct cell *list(unsigned long from, int length)
{
    struct cell *first = NULL;
    for (int n = 0; n < length; n++)
        first = cell(from + n, first);
    return first;
}

__attribute__((noinline)) static void waste(int n)
{
    list(n, 50);
    if (n % 5 == 0)
        GC_gcollect();
}

int main(void)
{
    GC_INIT();
    unsigned long sum = 0;
    for (int round = 0; round < 60; round++) {
        struct cell *kept = list(round, 500);
        waste(round);
        for (struct cell *at = kept; at; at = at->next)
            sum = sum * 31 + at->value;
    }
    printf("%lu\n", sum);
    return 0;
}
