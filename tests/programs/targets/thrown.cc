// Exceptions through several frames, rethrown and with destructors on their way.
#include <cstdio>
#include <stdexcept>

static unsigned long sum;

struct Guard {
    ~Guard() { sum += 3; }
};

__attribute__((noinline)) static int thrower(int depth)
{
    Guard guard;
    if (depth == 0)
        throw std::runtime_error("end");
    return thrower(depth - 1) + 1;
}

__attribute__((noinline)) static int again(int depth)
{
    try {
        return thrower(depth);
    } catch (...) {
        sum *= 3;
        throw;
    }
}

int main()
{
    for (int n = 0; n < 200; n++) {
        try {
            again(n % 7);
        } catch (const std::exception &error) {
            sum = sum * 31 + error.what()[0];
        }
    }
    std::printf("%lu\n", sum);
    return 5;
}
