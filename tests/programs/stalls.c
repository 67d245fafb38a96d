// Kernels that each wait for one thing: `stalls KERNEL SECONDS`. The truth of each is in its
// comment, as the cause that `vitalfew annotate` has to list for its hottest stall. x86-64 only.
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define KERNEL __attribute__((noinline, noclone))

static uint64_t state = 88172645463325252u;

static inline uint64_t next(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static void *zeroed(size_t bytes) {
    void *memory = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        abort();
    memset(memory, 1, bytes);
    return memory;
}

// D-cache miss: each load needs the one before, and none is in the cache.
KERNEL void **chase(void **at, long times) {
    while (times--)
        at = *at;
    return at;
}

// D-cache miss, but no DTLB miss: the same in a table of 24 pages, which are not more than the DTLB has.
KERNEL void **chase_near(void **at, long times) {
    while (times--)
        at = *at;
    return at;
}

// D-cache miss, but hardly a DTLB miss: one element after the other.
KERNEL uint64_t stream(const uint64_t *table, size_t words, long times) {
    uint64_t sum = 0;
    for (long round = 0; round < times; round++)
        for (size_t i = 0; i < words; i++)
            __asm__ volatile("add %1, %0" : "+r"(sum) : "r"(table[i]));
    return sum;
}

// D-cache miss: loads that do not depend on each other.
KERNEL uint64_t random_loads(const uint64_t *table, size_t mask, long times) {
    uint64_t sum = 0, place = 1;
    while (times--) {
        place = place * 6364136223846793005u + 1442695040888963407u;
        sum += table[(place >> 30) & mask];
    }
    return sum;
}

// Store buffer: stores to lines that are not in the cache.
KERNEL void store_burst(uint64_t *table, size_t words, long times) {
    for (long round = 0; round < times; round++)
        for (size_t i = 0; i < words; i += 8)
            table[i] = i;
}

// Divider: each division needs the result of the one before.
KERNEL uint64_t divide(uint64_t value, uint64_t by, long times) {
    while (times--)
        value = (value | 1ull << 62) / by;
    return value;
}

// Branch mispredict: half of the branches, at random.
KERNEL uint64_t mispredict(const unsigned char *bits, size_t mask, long times) {
    uint64_t sum = 1;
    for (long i = 0; i < times; i++) {
        if (bits[i & mask] & 1)
            __asm__ volatile("add $3, %0" : "+r"(sum));
        else
            __asm__ volatile("xor $5, %0" : "+r"(sum));
    }
    return sum;
}

// Ports: multiplications that do not depend on each other have one unit.
KERNEL void ports(long times) {
    while (times--)
        __asm__ volatile("imul $3, %%rdi, %%rax\n\timul $3, %%rdi, %%rcx\n\t"
                         "imul $3, %%rdi, %%rdx\n\timul $3, %%rdi, %%rsi\n\t"
                         "imul $3, %%rdi, %%r8\n\timul $3, %%rdi, %%r9\n\t"
                         "imul $3, %%rdi, %%r10\n\timul $3, %%rdi, %%r11"
                         ::: "rax", "rcx", "rdx", "rsi", "r8", "r9", "r10", "r11");
}

// I-cache miss: jumps in 48 pages, at the same place of each, where a first-level cache has room for
// eight lines.
KERNEL void fetch(long times) {
    while (times--)
        __asm__ volatile(".rept 48\n\tjmp 1f\n\t.p2align 12\n1:\n\t.endr");
}

// DTLB miss: one line in each of many pages, so few that they stay in the cache.
KERNEL uint64_t pages(const char *memory, size_t count, long times) {
    uint64_t place = 0;
    while (times--)
        for (size_t i = 0; i < count; i++)
            // The line differs from page to page, or all would be in one set.
            place += memory[(i << 12) + ((i & 63) << 6) + (place & 1)] & 2;
    return place;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

int main(int argc, char **argv) {
    if (argc != 3)
        return 2;
    const char *kernel = argv[1];
    size_t words = 1 << 24;
    uint64_t *table = zeroed(words * 8), sum = 0;
    // A cycle through all lines.
    size_t lines = words / 8;
    if (!strcmp(kernel, "chase_near"))
        lines = 24 * 64;
    uint32_t *order = zeroed(lines * 4);
    for (size_t i = 0; i < lines; i++)
        order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t other = next() % i;
        uint32_t swapped = order[i];
        order[i] = order[other];
        order[other] = swapped;
    }
    void **at = (void **)table;
    for (size_t i = 0; i < lines; i++)
        table[8 * (size_t)order[i]] = (uintptr_t)(table + 8 * (size_t)order[(i + 1) % lines]);
    unsigned char *bits = zeroed(1 << 20);
    for (size_t i = 0; i < 1 << 20; i++)
        bits[i] = next() >> 40;
    size_t many = 4096;
    char *memory = zeroed(many << 12);
    double end = now() + atof(argv[2]);
    do {
        if (!strcmp(kernel, "chase"))
            at = chase(at, 1 << 18);
        else if (!strcmp(kernel, "chase_near"))
            at = chase_near(at, 1 << 22);
        else if (!strcmp(kernel, "stream"))
            sum += stream(table, words, 1);
        else if (!strcmp(kernel, "random_loads"))
            sum += random_loads(table, words - 1, 1 << 20);
        else if (!strcmp(kernel, "store_burst"))
            store_burst(table, words, 1);
        else if (!strcmp(kernel, "divide"))
            sum += divide(~0ull, 3, 1 << 22);
        else if (!strcmp(kernel, "mispredict"))
            sum += mispredict(bits, (1 << 20) - 1, 1 << 22);
        else if (!strcmp(kernel, "ports"))
            ports(1 << 22);
        else if (!strcmp(kernel, "fetch"))
            fetch(1 << 16);
        else if (!strcmp(kernel, "pages"))
            sum += pages(memory, many, 256);
        else
            return 2;
    } while (now() < end);
    printf("%p %lu\n", (void *)at, sum);
}
