// layers: each layer is laid over the whole picture before the next one is; repaired, all of them over a strip. newest_layers [repaired]
#include <algorithm>
#include <cstdio>
#include <thread>
#include <vector>

constexpr size_t PIXELS = 4u << 20, STRIP = 512;
constexpr int LAYERS = 12, ROUNDS = 6;

struct Pixel {
  float light = 0.5f, colours[15];
};

struct Picture {
  std::vector<Pixel> pixels = std::vector<Pixel>(PIXELS);
};

__attribute__((noinline)) static void blend_layer(Pixel *from, Pixel *to, float strength) {
  for (; from < to; from++) from->light = from->light * (1 - strength) + strength;
}

static void blend_half(Picture &picture, size_t begin, size_t end, bool repaired) {
  const size_t strip = repaired ? STRIP : end - begin;
  for (int round = 0; round < ROUNDS; round++) {
    for (size_t at = begin; at < end; at += strip) {
      Pixel *from = picture.pixels.data() + at, *to = from + std::min(strip, end - at);
      for (int layer = 0; layer < LAYERS; layer++) blend_layer(from, to, 0.01f * float(layer));
    }
  }
}

int main(int count, char **) {
  Picture picture;
  std::thread upper(blend_half, std::ref(picture), 0, PIXELS / 2, count > 1);
  std::thread lower(blend_half, std::ref(picture), PIXELS / 2, PIXELS, count > 1);
  upper.join();
  lower.join();
  std::printf("%f\n", double(picture.pixels[PIXELS / 3].light));
}
