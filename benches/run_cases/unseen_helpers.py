"""helpers: a program is started to ask for each file's size; repaired, the system is asked. unseen_helpers.py [repaired]"""

import hashlib
import os
import subprocess
import sys

REPAIRED = len(sys.argv) > 1


def size_of(path):
    if REPAIRED:
        return os.stat(path).st_size
    return int(subprocess.run(["stat", "-c", "%s", path], capture_output=True, check=True).stdout)


def describe(path, number):
    digest = hashlib.sha256()
    for block in range(60):
        digest.update(b"%d %d" % (number, block) * 60)
    return f"{digest.hexdigest()} {size_of(path)}"


PATHS = ["/usr/lib/os-release", "/etc/passwd", "/etc/hostname"]
print(sum(len(describe(PATHS[i % len(PATHS)], i)) for i in range(700)))
