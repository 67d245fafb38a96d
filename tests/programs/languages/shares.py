"""Three quarters of the CPU time is spent below `three`, one quarter below `one`: measured by the thread's own clock, so that it
holds on a busy machine. Arguments: seconds, and how: `plain`, `recursive`, `threads`, or `short` for
many threads that end soon."""
import sys
import threading
import time


def spin(seconds):
    end = time.thread_time() + seconds
    total = 0
    while time.thread_time() < end:
        for i in range(200):
            total += i
    return total


def three(seconds):
    return spin(seconds)


def one(seconds):
    return spin(seconds)


def descend(depth, seconds):
    if depth == 0:
        return three(seconds)
    return descend(depth - 1, seconds)


def rounds(seconds, deep):
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        if deep:
            descend(20, 0.03)
        else:
            three(0.03)
        one(0.01)


if __name__ == "__main__":
    seconds, how = float(sys.argv[1]), sys.argv[2]
    if how == "threads":
        # Each has the lock in turn; their clocks stand while they wait for it.
        threads = [threading.Thread(target=rounds, args=(seconds / 4, False)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    elif how == "short":
        # Three at a time: a new one gets the stack of another one that has ended, but its state lies elsewhere.
        running = []
        for number in range(int(seconds / 0.04)):
            thread = threading.Thread(target=rounds, args=(0.04, False))
            thread.start()
            running.append(thread)
            if len(running) == 3:
                running.pop(number % 2).join()
        for thread in running:
            thread.join()
    else:
        rounds(seconds, how == "recursive")
