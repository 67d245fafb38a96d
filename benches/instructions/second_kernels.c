/* Kernels that were written after `annotate --count` knew the first two files, and looked at once. */
#include "kernels.h"

KERNEL static uint64_t stencil(int *to, const int *from, int width, int height) {
    for (int y = 1; y < height - 1; y++)
        for (int x = 1; x < width - 1; x++) {
            const int *at = from + y * width + x;
            to[y * width + x] = (at[-1] + at[1] + at[-width] + at[width] - 4 * at[0]) >> 2;
        }
    return to[width + 1];
}

KERNEL static uint64_t histogram(const unsigned char *text, size_t n, uint32_t *counts) {
    for (size_t i = 0; i < n; i++) counts[text[i]]++;
    return counts[7];
}

KERNEL static uint64_t modulo(uint64_t n, uint64_t by) {
    uint64_t a = 0, b = 1;
    while (n--) {
        uint64_t next = (a + b) % by;
        a = b;
        b = next;
    }
    return b;
}

struct item { struct item *next; uint64_t key; };

/* Lists of one to sixteen items. */
KERNEL static uint64_t lists(struct item **heads, size_t n) {
    uint64_t found = 0;
    for (size_t i = 0; i < n; i++)
        for (struct item *at = heads[i]; at; at = at->next) found += at->key;
    return found;
}

KERNEL static uint64_t prefix(uint64_t *all, size_t n) {
    for (size_t i = 1; i < n; i++) {
        all[i] += all[i - 1];
        KEEP(all[i]);
    }
    return all[n - 1];
}

KERNEL static uint64_t length(const char *text) {
    const char *at = text;
    while (*at) at++;
    return at - text;
}

KERNEL static double logistic(double x, long n) {
    for (long i = 0; i < n; i++) x = 3.99 * x * (1 - x);
    return x;
}

KERNEL static uint64_t halves(const uint64_t *sorted, size_t n, uint64_t key) {
    size_t low = 0, high = n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (sorted[middle] < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static double run(const char *name, uint64_t n) {
    double rounds = 0;
    if (IS("modulo")) return sink = modulo(n, 1000000007), n;
    if (IS("logistic")) return sink_double = logistic(0.3, n), n;
    unsigned char *bytes = filled(1 << 22);
    if (IS("lists")) {
        size_t count = 1 << 14;
        struct item **heads = calloc(count, sizeof *heads);
        for (size_t i = 0; i < count; i++)
            for (size_t j = 0; j <= bytes[i] % 16u; j++) {
                struct item *new = malloc(sizeof *new);
                *new = (struct item){heads[i], i};
                heads[i] = new;
                rounds++;
            }
        for (uint64_t call = 0; call < n; call++) sink += lists(heads, count);
        return rounds * n;
    }
    if (IS("length"))
        for (size_t i = 0; i < 1 << 22; i++) bytes[i] = i + 1 == 1 << 18 ? 0 : bytes[i] | 1;
    if (IS("halves"))
        for (size_t i = 0; i < 1 << 19; i++) ((uint64_t *)bytes)[i] = i;
    for (uint64_t call = 0; call < n; call++) {
        static uint32_t counts[256];
        if (IS("stencil")) sink += stencil((int *)bytes, (int *)bytes + 500000, 800, 600), rounds += 798.0 * 598;
        if (IS("histogram")) sink += histogram(bytes, 1 << 20, counts), rounds += 1 << 20;
        if (IS("prefix")) sink += prefix((uint64_t *)bytes, 1 << 12), rounds += (1 << 12) - 1;
        if (IS("length")) sink += length((char *)bytes), rounds += (1 << 18) - 1;
        if (IS("halves")) sink += halves((uint64_t *)bytes, 1 << 19, random_number() >> 45), rounds += 19;
    }
    return rounds > 0 ? rounds : -1;
}
