/* Kernels with which `annotate --count` was made. */
#include "kernels.h"

static unsigned char *bytes;
static size_t size;

KERNEL static uint64_t divide(uint64_t n) {
    uint64_t x = ~0ul, sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        x = (x | 1ul << 63) / (i | 3);
        sum += x;
    }
    return sum;
}

KERNEL static uint64_t multiply(uint64_t n) {
    uint64_t x = 3;
    for (uint64_t i = 0; i < n; i++) {
        x *= 0x9e3779b97f4a7c15u;
        KEEP(x);
        x *= 5;
        KEEP(x);
        x ^= i;
    }
    return x;
}

/* A branch that is taken at random. */
KERNEL static uint64_t branch(uint64_t n) {
    uint64_t x = 88172645463325252u, a = 0, b = 1;
    for (uint64_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        if (x & 4) {
            a += x >> 3;
            KEEP(a);
        } else {
            b *= x;
            KEEP(b);
        }
    }
    return a + b;
}

KERNEL static uint64_t fnv(uint64_t n) {
    uint64_t h = 14695981039346656037u;
    for (uint64_t i = 0; i < n; i++) {
        h ^= bytes[i & (size - 1)];
        h *= 1099511628211u;
    }
    return h;
}

#define LOOP(name, rounds)                                   \
    KERNEL static uint64_t name(uint64_t n) {                \
        uint64_t x = n;                                      \
        for (uint64_t i = 0; i < rounds; i++) {              \
            x = (x ^ x >> 5) * 0x9e3779b97f4a7c15u;          \
            KEEP(x);                                         \
        }                                                    \
        return x;                                            \
    }
LOOP(loop24, 24)
LOOP(loop3000, 3000)
LOOP(loop200000, 200000)

/* Searches one of three marks from a random start. */
static uint64_t searched;
KERNEL static uint64_t search(uint64_t n) {
    uint64_t found = 0;
    for (uint64_t call = 0; call < n; call++) {
        uint64_t start = call * 0x9e3779b97f4a7c15u >> 20 & (size - 1), i = start;
        for (;; i++) {
            unsigned char one = bytes[i & (size - 1)];
            if (one == 0) {
                found += 1;
                break;
            }
            if (one == 77) {
                found += 3;
                break;
            }
            if (one == 200) {
                found ^= 5;
                break;
            }
        }
        searched += i - start + 1;
    }
    return found;
}

KERNEL static uint64_t recurse(uint64_t n) {
    return n < 2 ? 1 : recurse(n - 1) + recurse(n - 2) + 1;
}

KERNEL static uint64_t copy(uint64_t n) {
    uint64_t *from = (uint64_t *)bytes, *to = from + size / 16;
    for (uint64_t call = 0; call < n; call++)
        for (size_t i = 0; i < size / 16; i++) {
            to[i] = from[i];
            __asm__ volatile("" ::: "memory");
        }
    return to[1];
}

__attribute__((optimize("O3", "tree-vectorize"), target("avx2"))) KERNEL static uint64_t vector(uint64_t n) {
    uint32_t *all = (uint32_t *)bytes;
    uint64_t sum = 0;
    for (uint64_t call = 0; call < n; call++) {
        uint32_t own = 0;
        for (size_t i = 0; i < size / 4; i++) own += all[i] * 3u;
        sum += own;
        __asm__ volatile("" ::: "memory");
    }
    return sum;
}

__attribute__((optimize("unroll-all-loops"))) KERNEL static uint64_t unrolled(uint64_t n) {
    uint64_t x = 1;
    for (uint64_t i = 0; i < n; i++) {
        x = (x ^ x >> 7) * 0x9e3779b97f4a7c15u;
        KEEP(x);
    }
    return x;
}

/* A pointer goes on in steps that do not fit, 100 or 400 of them. */
KERNEL static uint64_t stride(uint64_t n) {
    uint64_t sum = 0;
    for (uint64_t call = 0; call < n; call++) {
        unsigned char *at = bytes + (call & 15) * 4096, *end = at + (call & 3 ? 700 : 2800);
        for (; at < end; at += 7) {
            sum = (sum ^ *at) * 31;
            KEEP(sum);
        }
    }
    return sum;
}

static void fill(size_t of) {
    bytes = filled(size = of);
}

static double run(const char *name, uint64_t n) {
    if (IS("chase16k")) return sink = chase(chain(16 << 10), n), n;
    if (IS("chase8m")) return sink = chase(chain(8 << 20), n), n;
    if (IS("divide")) return sink = divide(n), n;
    if (IS("multiply")) return sink = multiply(n), n;
    if (IS("branch")) return sink = branch(n), n;
    if (IS("unrolled")) return sink = unrolled(n), n / 8;
    if (IS("recurse")) return sink = recurse(n);
    for (uint64_t i = 0; i < n && IS("loop24"); i++) sink += loop24(i);
    for (uint64_t i = 0; i < n && IS("loop3000"); i++) sink += loop3000(i);
    for (uint64_t i = 0; i < n && IS("loop200000"); i++) sink += loop200000(i);
    if (!strncmp(name, "loop", 4)) return (double)n * atoi(name + 4);
    fill(IS("copy") ? 1 << 18 : IS("stride") ? 1 << 17 : 1 << 16);
    if (IS("fnv")) return sink = fnv(n), n;
    if (IS("search")) return sink = search(n), searched;
    if (IS("copy")) return sink = copy(n), (double)n * (size / 16);
    if (IS("vector")) return sink = vector(n), (double)n * (size / 32);
    if (IS("stride")) return sink = stride(n), 400.0 * (n / 4 + !!(n % 4)) + 100.0 * (n - n / 4 - !!(n % 4));
    return -1;
}
