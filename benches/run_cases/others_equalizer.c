/* equalizer: speech with pauses goes through an equalizer of ten bands, a compressor and a meter of levels.
   equalizer [repaired] */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RATE 48000
#define BLOCK 512
#define STEP (repaired ? BLOCK : 4)
#define BANDS 10
#define SECONDS 400

struct band {
    float b0, b1, b2, a1, a2, x1, x2, y1, y2;
    double hz, knob;
};

static int repaired;

static void tune_band(struct band *f, double hz, double gain_db, double q)
{
    double a = pow(10, gain_db / 40), w = 2 * M_PI * hz / RATE, alpha = sin(w) / (2 * q), a0 = 1 + alpha / a;
    f->b0 = (1 + alpha * a) / a0;
    f->b1 = f->a1 = -2 * cos(w) / a0;
    f->b2 = (1 - alpha * a) / a0;
    f->a2 = (1 - alpha / a) / a0;
}

static void filter_band(struct band *f, float *s, int n)
{
    float x1 = f->x1, x2 = f->x2, y1 = f->y1, y2 = f->y2;
    for (int i = 0; i < n; i++) {
        if (i % STEP == 0)
            tune_band(f, f->hz, f->knob, 1.4);
        float x = s[i], y = f->b0 * x + f->b1 * x1 + f->b2 * x2 - f->a1 * y1 - f->a2 * y2;
        x2 = x1, x1 = x;
        y2 = y1, y1 = y;
        s[i] = y;
    }
    f->x1 = x1, f->x2 = x2, f->y1 = y1, f->y2 = y2;
}

/* A second of speech, and then some of nothing. */
static void speak(float *s, int n, uint64_t at)
{
    static uint32_t x = 12345;
    for (int i = 0; i < n; i++, at++) {
        uint32_t phase = at % (5 * RATE);
        if (phase >= RATE) {
            s[i] = 0;
            continue;
        }
        x = x * 1664525u + 1013904223u;
        float noise = (int32_t)x / 2147483648.0f;
        s[i] = 0.3f * sinf(phase * 0.0157f) + 0.1f * sinf(phase * 0.0471f) + 0.05f * noise;
    }
}

static void compress(float *s, int n)
{
    static float envelope;
    for (int i = 0; i < n; i++) {
        float level = fabsf(s[i]);
        envelope += (level - envelope) * (level > envelope ? 0.01f : 0.0005f);
        if (envelope < 1e-6f)
            envelope = 1e-6f;
        float over = envelope > 0.1f ? powf(envelope / 0.1f, -0.5f) : 1.0f;
        s[i] *= over * 1.4f;
    }
}

static void meter(const float *s, int n, double *level, int *histogram)
{
    double sum = 0;
    for (int i = 0; i < n; i++) {
        double v = s[i];
        sum += v * v;
        int db = v * v > 1e-12 ? (int)(-10 * log10(v * v)) : 119;
        histogram[db < 0 ? 0 : db > 119 ? 119 : db]++;
    }
    *level += sum / n;
}

static void dither(const float *s, int n, int16_t *out)
{
    static uint32_t x = 99;
    for (int i = 0; i < n; i++) {
        x = x * 1664525u + 1013904223u;
        float v = s[i] * 32000 + (x >> 16) / 65536.0f - 0.5f;
        out[i] = v > 32767 ? 32767 : v < -32768 ? -32768 : (int16_t)lrintf(v);
    }
}

int main(int argc, char **argv)
{
    repaired = argc > 1 && !strcmp(argv[1], "repaired");
    struct band bands[BANDS] = {0};
    for (int b = 0; b < BANDS; b++)
        bands[b].hz = 60 * pow(1.9, b);
    float s[BLOCK];
    int16_t out[BLOCK];
    int histogram[120] = {0};
    double level = 0;
    long loud = 0, blocks = (long)SECONDS * RATE / BLOCK;
    for (long k = 0; k < blocks; k++) {
        speak(s, BLOCK, (uint64_t)k * BLOCK);
        for (int b = 0; b < BANDS; b++) {
            bands[b].knob = (b % 2 ? 2 : -2) + (k / 100 + b) % 3; /* as someone turns it */
            filter_band(&bands[b], s, BLOCK);
        }
        compress(s, BLOCK);
        meter(s, BLOCK, &level, histogram);
        dither(s, BLOCK, out);
        for (int i = 0; i < BLOCK; i++)
            loud += abs(out[i]) > 1000;
    }
    printf("%ld loud samples, %d silent ones, level %.4f\n", loud, histogram[119], level / blocks);
}
