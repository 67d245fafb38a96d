"""lost.py VITALFEW: how many samples are kept where samples come faster than they can be read.

Two loops occupy the CPUs. Beside them a program runs that is recorded: a compile of many short processes, or
eight threads in 40 frames of recursion. Ours and perf record, one after the other, with copies of stacks and
without stacks through ring buffers. `known` is the time that the kept samples stand for (count x period) as a part of the
CPU time that the program had by its own clock: 100 % is right, less is lost.
"""

import json
import re
import shutil
import subprocess
import sys

import bench

FILES = max(20, round(bench.SECONDS * 2))
UNIT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <math.h>
struct point { double x, y; };
double f(struct point *p, int n) { double s = 0; for (int i = 0; i < n; i++) s += p[i].x * sin(p[i].y); return s; }
int main(void) { struct point p[4] = {{1, 2}}; printf("%f\\n", f(p, 4)); return 0; }
"""


def prepared():
    """The programs, as commands."""
    recursion = bench.TEMPORARY / "recursion"
    source = bench.HERE.parent / "tests/programs/deep_threads.c"
    subprocess.run(["cc", "-O2", "-pthread", "-o", recursion, source], check=True)
    units = bench.TEMPORARY / "units"
    units.mkdir()
    for number in range(FILES):
        (units / f"u{number}.c").write_text(UNIT)
    compile_all = f"ls {units}/*.c | xargs -P 4 -n 1 sh -c 'cc -O2 -c -o /dev/null $0'"
    rounds = str(round(bench.SECONDS * 2000))
    return {"compile": ["sh", "-c", compile_all], "recursion": [str(recursion), rounds]}


def timed(command, out):
    """The command, so that its CPU seconds come to stand in a file."""
    script = 'TIMEFORMAT="%3U %3S"; { time "$@" 2>/dev/null; } 2>' + str(out)
    return ["bash", "-c", script, "timed", *command]


def cpu_seconds(out):
    return sum(map(float, out.read_text().split()))


def ours(arguments, rate, command):
    database = bench.TEMPORARY / "lost.db"
    shutil.rmtree(database, ignore_errors=True)
    record = [bench.VITALFEW, "record", "-q", "-e", "cpu-clock", "-F", rate, *arguments, "--db", database, "--"]
    subprocess.run(list(map(str, record + command)), stderr=subprocess.DEVNULL, check=True)
    query = "SELECT taken, stored, dropped + lost AS missing, frequency FROM events"
    found = [bench.VITALFEW, "query", "--db", str(database), "--json", query]
    text = subprocess.run(found, capture_output=True, text=True, check=True).stdout
    row = json.loads(text)[0]
    return row["taken"], row["stored"], row["missing"], row["frequency"]


def perfs(arguments, rate, command):
    # perf 6.1 aborts on the build-ids of some programs.
    data = bench.TEMPORARY / "perf.data"
    record = ["perf", "record", "-B", "-N", "-e", "cpu-clock", "-c", 10**9 // rate, *arguments, "-o", data, "--"]
    subprocess.run(list(map(str, record + command)), capture_output=True, check=True)
    stats = ["perf", "report", "--stats", "-i", str(data)]
    text = subprocess.run(stats, capture_output=True, text=True, check=True).stdout
    stored, lost = (
        # The first is of all events, and of records; behind it stand the samples of our only one.
        int((re.findall(rf"^ *{name} events: +(\d+)", text, re.M) or [0])[-1])
        for name in ("SAMPLE", "LOST_SAMPLES")
    )
    return stored + lost, stored, lost, rate


def main():
    programs = prepared()
    hogs = [bench.start("sh", "-c", "while :; do :; done") for _ in bench.CPUS]
    ways = {
        "dwarf": (["--call-graph", "dwarf"], ["--call-graph", "dwarf"]),
        "flat": (["--no-stacks", "--collector", "ring"], []),
    }
    print("| program | way | asked | by | taken | kept | lost | rate | known |\n|---|---|---|---|---|---|---|---|---|")
    out = bench.TEMPORARY / "times"
    for program, command in programs.items():
        for way, arguments in ways.items():
            for rate in (5000, 20000):
                for name, tool, extra in (("vitalfew", ours, arguments[0]), ("perf", perfs, arguments[1])):
                    taken, stored, lost, frequency = tool(extra, rate, timed(command, out))
                    known = stored / frequency / cpu_seconds(out)
                    print(
                        f"| {program} | {way} | {rate} | {name} | {taken} | {stored} "
                        f"| {100 * lost / max(1, taken):.1f} % | {frequency:.0f} | {100 * known:.0f} % |",
                        flush=True,
                    )
    for hog in hogs:
        bench.end(hog)


if __name__ == "__main__":
    sys.exit(main())
