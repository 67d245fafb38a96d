// scene: each ball of a game is compared with all others; repaired, with those of its neighbourhood; doubled, with half of them.
// doubled_scene [repaired | doubled]
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

constexpr float WIDTH = 1280, HEIGHT = 720, RADIUS = 3;
constexpr int BALLS = 1800, FRAMES = 500, CELL = 20;

struct Ball {
  float x, y, across, down;
  uint32_t colour, hits;
};

class Scene {
  std::vector<Ball> balls;
  std::vector<uint8_t> picture = std::vector<uint8_t>(size_t(WIDTH) * size_t(HEIGHT));
  std::vector<std::vector<uint32_t>> cells;
  uint64_t seed = 42;

  float chance() {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return float(seed >> 40) / float(1 << 24);
  }

  void bounce(Ball &one, Ball &other) {
    float across = one.x - other.x, down = one.y - other.y;
    if (across * across + down * down > 4 * RADIUS * RADIUS) return;
    std::swap(one.across, other.across);
    std::swap(one.down, other.down);
    one.hits++, other.hits++;
  }

public:
  explicit Scene(int count) {
    for (int i = 0; i < count; i++)
      balls.push_back({chance() * WIDTH, chance() * HEIGHT, chance() * 4 - 2, chance() * 4 - 2, uint32_t(i) % 200 + 50, 0});
  }

  __attribute__((noinline)) void move_balls() {
    for (Ball &ball : balls) {
      ball.x += ball.across;
      ball.y += ball.down;
      if (ball.x < RADIUS || ball.x > WIDTH - RADIUS) ball.across = -ball.across;
      if (ball.y < RADIUS || ball.y > HEIGHT - RADIUS) ball.down = -ball.down;
      ball.x = std::fmin(std::fmax(ball.x, RADIUS), WIDTH - RADIUS - 1);
      ball.y = std::fmin(std::fmax(ball.y, RADIUS), HEIGHT - RADIUS - 1);
    }
  }

  // Of the balls behind each one, the first part.
  __attribute__((noinline)) void find_collisions(size_t parts) {
    for (size_t i = 0; i < balls.size(); i++)
      for (size_t j = i + 1, end = j + (balls.size() - j) / parts; j < end; j++) bounce(balls[i], balls[j]);
  }

  __attribute__((noinline)) void find_collisions_nearby() {
    constexpr int columns = int(WIDTH) / CELL + 1, lines = int(HEIGHT) / CELL + 1;
    cells.resize(columns * lines);
    for (auto &cell : cells) cell.clear();
    for (uint32_t i = 0; i < balls.size(); i++) cells[int(balls[i].y) / CELL * columns + int(balls[i].x) / CELL].push_back(i);
    for (int line = 0; line < lines; line++)
      for (int column = 0; column < columns; column++)
        for (uint32_t i : cells[line * columns + column])
          for (int beside : {0, 1, columns - 1, columns, columns + 1}) {
            size_t near = size_t(line * columns + column + beside);
            if (near >= cells.size()) continue;
            for (uint32_t j : cells[near])
              if (beside || j > i) bounce(balls[i], balls[j]);
          }
  }

  __attribute__((noinline)) void fade_picture() {
    for (uint8_t &pixel : picture) pixel = uint8_t(pixel - (pixel >> 3));
  }

  __attribute__((noinline)) void draw_balls() {
    for (const Ball &ball : balls)
      for (int down = -3; down <= 3; down++)
        for (int across = -3; across <= 3; across++) {
          if (across * across + down * down > 9) continue;
          size_t x = size_t(ball.x + across), y = size_t(ball.y + down);
          if (x < size_t(WIDTH) && y < size_t(HEIGHT)) picture[y * size_t(WIDTH) + x] = uint8_t(ball.colour);
        }
  }

  // The length of a picture whose equal pixels are counted.
  __attribute__((noinline)) size_t pack_picture() const {
    size_t length = 0;
    for (size_t at = 0; at < picture.size();) {
      size_t end = at + 1;
      while (end < picture.size() && end - at < 255 && picture[end] == picture[at]) end++;
      at = end;
      length += 2;
    }
    return length;
  }

  uint64_t hits() const {
    uint64_t all = 0;
    for (const Ball &ball : balls) all += ball.hits;
    return all / 2;
  }
};

int main(int count, char **words) {
  const std::string_view form = count > 1 ? words[1] : "";
  Scene scene(BALLS);
  size_t packed = 0;
  for (int frame = 0; frame < FRAMES; frame++) {
    scene.move_balls();
    if (form == "repaired")
      scene.find_collisions_nearby();
    else
      scene.find_collisions(form == "doubled" ? 2 : 1);
    if (frame % 4) continue;
    scene.fade_picture();
    scene.draw_balls();
    packed += scene.pack_picture();
  }
  std::printf("%lu hits, %zu bytes\n", scene.hits(), packed);
}
