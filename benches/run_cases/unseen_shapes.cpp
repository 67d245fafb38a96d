// shapes: areas of shapes of six kinds, in any order; repaired, sorted by kind. unseen_shapes [repaired]
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

struct Shape {
  explicit Shape(int kind, int size) : kind(kind), size(size) {}
  virtual ~Shape() = default;
  virtual long area() const = 0;
  int kind, size;
};

template <int KIND>
struct Polygon : Shape {
  explicit Polygon(int size) : Shape(KIND, size) {}
  long area() const override { return long(size) * (KIND + 2) + KIND; }
};

using Shapes = std::vector<std::unique_ptr<Shape>>;

static std::unique_ptr<Shape> new_shape(unsigned random, int size) {
  switch (random % 6) {
    case 0: return std::make_unique<Polygon<0>>(size);
    case 1: return std::make_unique<Polygon<1>>(size);
    case 2: return std::make_unique<Polygon<2>>(size);
    case 3: return std::make_unique<Polygon<3>>(size);
    case 4: return std::make_unique<Polygon<4>>(size);
    default: return std::make_unique<Polygon<5>>(size);
  }
}

__attribute__((noinline)) static long total_area(const Shapes &shapes) {
  long sum = 0;
  for (const auto &shape : shapes) sum += shape->area();
  return sum;
}

__attribute__((noinline)) static unsigned long digest(unsigned long seed, long rounds) {
  for (long i = 0; i < rounds; i++) {
    seed = 0xfedcba9876543210u / (seed | 1) + i;
    __asm__ volatile("" : "+r"(seed));
  }
  return seed;
}

int main(int count, char **) {
  Shapes shapes;
  unsigned seed = 7;
  for (int i = 0; i < 20000; i++) {
    seed = seed * 1664525 + 1013904223;
    shapes.push_back(new_shape(seed >> 16, i % 100));
  }
  if (count > 1) {
    std::sort(shapes.begin(), shapes.end(), [](auto &a, auto &b) { return a->kind < b->kind; });
  }
  long sum = 0;
  for (int frame = 0; frame < 6000; frame++) sum += total_area(shapes) + digest(sum, 6000);
  std::printf("%ld\n", sum);
}
