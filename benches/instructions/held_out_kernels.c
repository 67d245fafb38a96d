/* Kernels that were written when `annotate --count` was made. */
#include "kernels.h"

KERNEL static double dot(const double *a, const double *b, size_t n, uint64_t calls) {
    double sum = 0;
    for (uint64_t call = 0; call < calls; call++) {
        for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
        sum *= 0.5;
    }
    return sum;
}

KERNEL static uint32_t crc(const unsigned char *text, size_t n, const uint32_t *table, uint32_t c) {
    for (size_t i = 0; i < n; i++) c = table[(c ^ text[i]) & 255] ^ c >> 8;
    return c;
}

KERNEL static uint64_t gather(const uint32_t *index, const uint64_t *all, size_t n) {
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++) sum += all[index[i]];
    return sum;
}

KERNEL static void sieve(unsigned char *is_prime, size_t n) {
    memset(is_prime, 1, n);
    for (size_t i = 2; i * i < n; i++)
        if (is_prime[i])
            for (size_t j = i * i; j < n; j += i) is_prime[j] = 0;
}

KERNEL static uint64_t bits(uint64_t n) {
    uint64_t count = 0;
    for (uint64_t i = 1; i <= n; i++)
        for (uint64_t x = i * 0x9e3779b97f4a7c15u; x; count++) x &= x - 1;
    return count;
}

KERNEL static double newton(int n) {
    double x = 1.5;
    for (int i = 0; i < n; i++) x = 0.5 * (x + 2.0 / x) + 1e-9;
    return x;
}

KERNEL static void matmul(const double *a, const double *b, double *c, int n) {
    for (int i = 0; i < n; i++)
        for (int j = 0; j < n; j++) {
            double sum = 0;
            for (int k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
}

KERNEL static void saxpy(float *y, const float *x, float a, long n) {
    for (long i = 0; i < n; i++) y[i] += a * x[i];
}

KERNEL static uint64_t lcg(uint64_t x, uint64_t n) {
    for (uint64_t i = 0; i < n; i++) x = x * 6364136223846793005u + 1442695040888963407u;
    return x;
}

KERNEL static long compare(const char *a, const char *b, long n) {
    long sum = 0;
    for (long i = 0; i < n; i++) sum += a[i] > b[i] ? i : -1;
    return sum;
}

KERNEL static double horner(const double *factors, int n, double x) {
    double sum = 0;
    for (int i = n - 1; i >= 0; i--) sum = sum * x + factors[i];
    return sum;
}

static double run(const char *name, uint64_t n) {
    double rounds = 0;
    if (IS("chase512k")) return sink = chase(chain(512 << 10), n), n;
    if (IS("chase256m")) return sink = chase(chain(256 << 20), n), n;
    if (IS("bits")) return sink = bits(n);
    if (IS("newton")) return sink_double = newton(n), n;
    if (IS("lcg")) return sink = lcg(1, n), n;
    for (uint64_t call = 0; call < n; call++) {
        static double a[160000], b[160000], c[160000];
        static float x[5000], y[5000];
        static unsigned char *text;
        static uint32_t *index;
        static uint64_t *far;
        if (!text) {
            text = filled(1 << 21);
            index = filled(8000000);
            for (size_t i = 0; i < 2000000; i++) index[i] &= (32 << 20) - 1;
            far = IS("gather") ? filled(8ul * (32 << 20)) : 0;
        }
        if (IS("dot")) return sink_double = dot(a, b, 20000, n), 20000.0 * n;
        if (IS("crc")) sink = crc(text, 1000000, index, sink), rounds += 1000000;
        if (IS("gather")) sink += gather(index, far, 2000000), rounds += 2000000;
        if (IS("matmul")) matmul(a, b, c, 400), rounds += 64000000;
        if (IS("saxpy")) saxpy(y, x, 0.5f, 5000), rounds += 5000;
        if (IS("compare")) sink += compare((char *)text, (char *)text + (1 << 20), 300000), rounds += 300000;
        if (IS("horner")) sink_double = horner(a, 900, 0.5), rounds += 900;
        if (IS("sieve")) {
            sieve(text, 2000000);
            for (size_t i = 2; i * i < 2000000; i++)
                if (call == 0 && text[i]) rounds += (double)n * ((2000000 - 1 - i * i) / i + 1);
        }
    }
    return rounds > 0 ? rounds : -1;
}
