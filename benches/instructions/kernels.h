/* What the kernels of counted_kernels.py share: `KERNEL NAME N` runs one and says its rounds. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define KERNEL __attribute__((noinline, noclone))

static volatile uint64_t sink;
static volatile double sink_double;
static uint64_t state = 88172645463325252u;

static inline uint64_t random_number(void) {
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

/* Pointers in lines of `size` bytes, each to the next in random order. */
static inline void **chain(size_t size) {
    size_t lines = size / 64;
    char *memory = aligned_alloc(4096, size);
    uint32_t *order = malloc(lines * sizeof *order);
    for (size_t i = 0; i < lines; i++) order[i] = i;
    for (size_t i = lines - 1; i > 0; i--) {
        size_t j = random_number() % i;
        uint32_t other = order[i];
        order[i] = order[j];
        order[j] = other;
    }
    for (size_t i = 0; i < lines; i++)
        *(char **)(memory + 64ul * order[i]) = memory + 64ul * order[(i + 1) % lines];
    free(order);
    return (void **)memory;
}

static inline void *filled(size_t size) {
    uint64_t *memory = aligned_alloc(4096, size);
    for (size_t i = 0; i < size / 8; i++) memory[i] = random_number();
    return memory;
}

/* Follows n pointers. */
KERNEL static uint64_t chase(void **at, uint64_t n) {
    for (; n > 0; n--) at = *at;
    return (uint64_t)at;
}

/* Runs the kernel of this name, and returns its rounds. */
static double run(const char *name, uint64_t n);

int main(int count, char **arguments) {
    if (count != 3) return 2;
    double rounds = run(arguments[1], strtoull(arguments[2], 0, 0));
    fprintf(stderr, "ROUNDS %.0f\n", rounds);
    return rounds < 0;
}

#define IS(text) (!strcmp(name, text))
#define KEEP(value) __asm__ volatile("" : "+r"(value))
