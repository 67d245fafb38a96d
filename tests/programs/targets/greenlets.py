"""Greenlets, which copy their part of one stack away and back: https://greenlet.readthedocs.io."""
import sys

try:
    from greenlet import greenlet
except ImportError:
    print("no greenlet")
    sys.exit(0)


def deep(value, depth):
    if depth == 0:
        return value * 31 + main.switch(value)
    # Through the C library, so that its frames are on the stack too.
    return sorted([1], key=lambda _: results.append(deep(value + depth, depth - 1)))[0] + value


def body(number):
    for n in range(50):
        results.append(deep(number * 100 + n, number % 4 + 1))


results = []
main = greenlet(lambda: None).parent
living = [greenlet(body) for _ in range(5)]
for number, one in enumerate(living):
    one.switch(number)
while living:
    for one in list(living):
        if one.dead:
            living.remove(one)
        else:
            one.switch(len(results))
print(len(results), sum((n + 1) * value for n, value in enumerate(results)) % 1000003)
