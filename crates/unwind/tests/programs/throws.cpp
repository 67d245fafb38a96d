// C++ at -O2: virtual calls, the standard library's algorithms, and an exception that is thrown
// and caught, which unwinds the stack itself while we look.
#include <algorithm>
#include <csignal>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#define KEEP __attribute__((noinline, noclone))
static volatile int sink;

struct Shape {
    virtual ~Shape() = default;
    virtual int area(int n) = 0;
};
struct Square : Shape {
    KEEP int area(int n) override {
        if (n == 3) throw std::runtime_error("three");
        return n * n;
    }
};

KEEP int guarded(Shape &shape, int n) {
    try {
        return shape.area(n);
    } catch (const std::exception &e) {
        sink += (int)std::string(e.what()).size();
        return 0;
    }
}

KEEP int sum(const std::vector<int> &numbers, std::function<int(int)> f) {
    int total = 0;
    std::for_each(numbers.begin(), numbers.end(), [&](int n) { total += f(n); });
    return total;
}

int main() {
    std::unique_ptr<Shape> shape = std::make_unique<Square>();
    raise(SIGSTOP);
    std::vector<int> numbers{5, 3, 4};
    std::sort(numbers.begin(), numbers.end());
    sink += sum(numbers, [&](int n) { return guarded(*shape, n); });
    raise(SIGSTOP);
    return 0;
}
