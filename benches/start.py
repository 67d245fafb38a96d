"""start.py VITALFEW: how long a recording takes to begin and to end, and what CPU time that takes, beside `perf record -g`.

The program is static and prints the time. Both in turn, START_RUNS (8) times after once for nothing; medians. The tables of the program and
the kernel's names are on disk.
"""

import os
import statistics
import subprocess
import sys
import time

import bench

RUNS = int(os.environ.get("START_RUNS", "8"))
STAMP = r"""
#include <stdio.h>
#include <time.h>
int main(void) { struct timespec t; clock_gettime(CLOCK_REALTIME, &t); printf("%lld.%09ld\n", (long long)t.tv_sec, t.tv_nsec); return 0; }
"""


def timed(command):
    """Seconds until the program began and until the recorder ended, its CPU time, and what of that was in the kernel."""
    begin = time.time()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    stamp = float(process.stdout.readline())
    _, status, usage = os.wait4(process.pid, 0)
    end = time.time()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"start: {command} ended with {process.returncode}")
    return stamp - begin, end - begin, usage.ru_utime + usage.ru_stime, usage.ru_stime


def main():
    program = bench.TEMPORARY / "stamp"
    source = bench.TEMPORARY / "stamp.c"
    source.write_text(STAMP)
    subprocess.run(["cc", "-O2", "-static", "-o", program, source], check=True)
    out = bench.TEMPORARY / "start"
    ways = {
        "record": [bench.VITALFEW, "record", "-q", "-o", f"{out}.vf", "--", program],
        "record --no-stacks": [bench.VITALFEW, "record", "-q", "--no-stacks", "-o", f"{out}.vf", "--", program],
        "perf record -g": ["perf", "record", "-q", "-g", "-o", f"{out}.data", "--", program],
    }
    seen = {way: [] for way in ways}
    for run in range(RUNS + 1):
        for way, command in ways.items():
            figures = timed(command)
            if run:
                seen[way].append(figures)
    bench.head("", "command begins after", "ends after", "CPU time (least to most)", "system")
    for way, runs in seen.items():
        begins, ends, cpu, system = zip(*runs)
        ms = lambda seconds: f"{1000 * statistics.median(seconds):.0f} ms"
        bench.row(way, ms(begins), ms(ends), f"{ms(cpu)} ({1000 * min(cpu):.0f} to {1000 * max(cpu):.0f})", ms(system))


if __name__ == "__main__":
    sys.exit(main())
