// Boost.Context: fibers that yield within nested calls and end by exceptions.
#include <boost/context/fiber.hpp>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace context = boost::context;
static unsigned long sum;

struct Fiber {
    context::fiber own, scheduler;
    bool done = false;
    void yield() { scheduler = std::move(scheduler).resume(); }
};

__attribute__((noinline)) static unsigned long deep(Fiber &fiber, unsigned long value, int depth)
{
    if (depth == 0) {
        fiber.yield();
        if (value % 11 == 0)
            throw std::runtime_error("eleven");
        return value * 31 + 7;
    }
    unsigned long left = deep(fiber, value + depth, depth - 1);
    return left ^ deep(fiber, left, depth - 1);
}

__attribute__((noinline)) static void body(Fiber &fiber, int number)
{
    for (int n = 0; n < 20; n++) {
        try {
            unsigned long found = deep(fiber, number * 100 + n, number % 3 + 2);
            sum = sum * 33 + found;
        } catch (const std::runtime_error &) {
            sum += 1;
        }
    }
    fiber.done = true;
}

int main()
{
    std::vector<Fiber> fibers(5);
    for (int n = 0; n < 5; n++) {
        Fiber &fiber = fibers[n];
        fiber.own = context::fiber([&fiber, n](context::fiber &&scheduler) {
            fiber.scheduler = std::move(scheduler);
            body(fiber, n);
            return std::move(fiber.scheduler);
        });
    }
    for (int step = 0, left = 5; left > 0; step++) {
        Fiber &fiber = fibers[step % 5];
        if (fiber.done)
            continue;
        fiber.own = std::move(fiber.own).resume();
        left -= fiber.done;
    }
    std::printf("%lu\n", sum);
}
