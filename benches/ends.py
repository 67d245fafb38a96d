"""ends.py VITALFEW [PROGRAM [ARGUMENT...]]: how long `record` takes beyond its program, and what its first recordings say of stacks.

Without unwind tables on disk first, then twice more: the tables that the first recording was over too soon for are made by and by. The
default program is vitalfew itself, asked for its version: its image is large, and it is over at once. Fails if a recording takes longer than
its beginning and its end may: 3 s for the tables of the program's own files, 2 s for those under way, and 2 s for everything else.
"""

import re
import subprocess
import sys
import time

import bench

MOST = 7.0
COMMAND = sys.argv[2:] or [bench.VITALFEW, "--version"]


def summary(text):
    whole = re.search(r"user stacks: ([\d.]+) % whole", text)
    early = re.search(r"\(([\d.]+) % before their tables were made\)", text)
    return (whole[1] + " %" if whole else "-"), (early[1] + " %" if early else "-")


def main():
    silent = {"stdout": subprocess.DEVNULL}
    begin = time.monotonic()
    subprocess.run(COMMAND, **silent, stderr=subprocess.DEVNULL, check=False)
    alone = time.monotonic() - begin
    cache = bench.TEMPORARY / "cache"
    bench.head("recording", "alone", "recorded", "whole stacks", "frames before their tables", "tables on disk")
    within = True
    for number in range(1, 4):
        out = bench.TEMPORARY / "end.vf"
        record = [bench.VITALFEW, "record", "-F", "2000", "-o", out, "--", *COMMAND]
        environment = bench.os.environ | {"XDG_CACHE_HOME": str(cache)}
        begin = time.monotonic()
        done = subprocess.run(list(map(str, record)), **silent, stderr=subprocess.PIPE, text=True, env=environment, check=False)
        took = time.monotonic() - begin
        tables = list((cache / "vitalfew" / "unwind").glob("*.rows"))
        size = sum(table.stat().st_size for table in tables)
        bench.row(number, f"{alone:.1f} s", f"{took:.1f} s", *summary(done.stderr), f"{len(tables)}, {size / 1e6:.1f} MB")
        within &= took <= alone + MOST
    print("\n" + ("met" if within else "**missed**") + f": at most {MOST:.0f} s more than alone")
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
