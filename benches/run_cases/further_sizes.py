# sizes: a command is started for the size of each file; repaired, the library is asked. further_sizes.py [repaired]
import os
import subprocess
import sys

repaired = len(sys.argv) > 1


def size_of(path):
    if repaired:
        return os.path.getsize(path)
    return int(subprocess.run(["/usr/bin/stat", "-c", "%s", path], capture_output=True, check=True).stdout)


def weigh(size):
    total = size
    for step in range(3000):
        total = (total * 31 + step) % 65521
    return total


print(sum(weigh(size_of(__file__)) for _ in range(400)))
