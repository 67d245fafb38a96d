// printshop: an order's pages are laid out by a pool of workers, and the order is bound when all of them are done.
// printshop [repaired]
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

static bool repaired;

class Pool {
public:
    explicit Pool(int size)
    {
        for (int i = 0; i < size; i++)
            workers.emplace_back([this] { work(); });
    }

    ~Pool()
    {
        {
            std::lock_guard<std::mutex> hold(lock);
            closing = true;
        }
        changed.notify_all();
        for (auto &w : workers)
            w.join();
    }

    void submit(std::function<void()> task)
    {
        {
            std::lock_guard<std::mutex> hold(lock);
            tasks.push_back(std::move(task));
        }
        if (repaired)
            changed.notify_one();
        else
            changed.notify_all();
    }

private:
    void work()
    {
        for (;;) {
            std::function<void()> task;
            {
                std::unique_lock<std::mutex> hold(lock);
                changed.wait(hold, [this] { return closing || !tasks.empty(); });
                if (tasks.empty())
                    return;
                task = std::move(tasks.front());
                tasks.pop_front();
            }
            task();
        }
    }

    std::mutex lock;
    std::condition_variable changed;
    std::deque<std::function<void()>> tasks;
    std::vector<std::thread> workers;
    bool closing = false;
};

struct Order {
    std::mutex lock;
    std::condition_variable done;
    int open = 0;
    uint64_t ink = 0;
};

static std::string text_of(uint32_t order, uint32_t page)
{
    static const char *words[] = {"offer", "of", "the", "week", "for", "members", "only", "garden", "furniture", "and"};
    std::string text;
    uint32_t x = order * 7919 + page * 104729 + 1;
    for (int i = 0; i < 300; i++) {
        x = x * 1664525u + 1013904223u;
        text += words[(x >> 20) % 10];
        text += ' ';
    }
    return text;
}

// Breaks a text into lines of 60 characters, and tells what ink they need.
static uint64_t lay_out(const std::string &text)
{
    uint64_t ink = 0;
    size_t column = 0, start = 0;
    for (size_t i = 0; i < text.size(); i++) {
        if (text[i] != ' ')
            continue;
        size_t width = i - start;
        if (column + width > 60) {
            ink += (60 - column) % 7;
            column = 0;
        }
        for (size_t k = start; k < i; k++)
            ink += (text[k] * 31u) % 11;
        column += width + 1;
        start = i + 1;
    }
    return ink;
}

static uint64_t print_order(Pool &pool, uint32_t number)
{
    Order order;
    order.open = 1 + number % 4;
    for (int page = 0, pages = order.open; page < pages; page++)
        pool.submit([&order, number, page] {
            uint64_t ink = lay_out(text_of(number, page));
            std::lock_guard<std::mutex> hold(order.lock);
            order.ink += ink;
            if (--order.open == 0)
                order.done.notify_one();
        });
    std::unique_lock<std::mutex> hold(order.lock);
    order.done.wait(hold, [&] { return order.open == 0; });
    return order.ink;
}

int main(int argc, char **argv)
{
    repaired = argc > 1 && !strcmp(argv[1], "repaired");
    uint64_t ink = 0;
    {
        Pool pool(24);
        for (uint32_t number = 0; number < 18000; number++)
            ink += print_order(pool, number);
    }
    std::printf("ink %llu\n", (unsigned long long)ink);
}
