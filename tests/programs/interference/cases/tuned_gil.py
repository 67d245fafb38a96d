"""gil: two threads compute; repaired, two processes do."""
import multiprocessing
import sys
import threading


def crunch(turns):
    total = 0
    for n in range(turns):
        total += n * n % 7
    return total


def worker():
    for _ in range(120):
        crunch(60000)


Kind = multiprocessing.Process if len(sys.argv) > 1 else threading.Thread
workers = [Kind(target=worker) for _ in range(2)]
for one in workers:
    one.start()
for one in workers:
    one.join()
