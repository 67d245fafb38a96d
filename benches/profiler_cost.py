#!/usr/bin/env python3
"""What profilers cost the program: windows of a second with each in turn and without any, in one process.

profiler_cost.py python FILE   beside py-spy (PYSPY: the program)
profiler_cost.py java FILE     beside async-profiler (ASPROF: the program, with its library in ../lib), in java (JAVA)
profiler_cost.py show FILE...  what was measured, of all files together

VITALFEW is ours. A program counts what it does on a CPU of its own (the last one), and says so 100 times a second; profilers and everything else are
on the others. Each window with a profiler is compared with the windows without one before and after it. SECONDS (200) is how long it goes on; FILE
gets a line for each window, so that several runs can be shown together: medians, and their interval by 10,000 resamplings.
"""
import bisect
import json
import os
import random
import re
import resource
import select
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
VITALFEW = os.environ.get("VITALFEW", os.path.join(HERE, "../target/release/vitalfew"))
RATES = [int(rate) for rate in os.environ.get("RATES", "100 1000").split()]
WINDOW = 1.2
SETTLE = 0.15

PYTHON = """
import sys, time
def step(depth): return step(depth - 1) + 1 if depth else sum(i * i for i in range(50))
file, done, said = open(sys.argv[1], "w", buffering=1), 0, 0
while True:
    step(20)
    done += 1
    now = time.monotonic()
    if now - said > 0.01:
        said = now
        print(f"{now} {done}", file=file)
"""
JAVA = """
import java.io.*;
import java.util.Arrays;
public class Steady {
    static int step(int depth) {
        if (depth > 0) return step(depth - 1) + 1;
        String[] words = new String[60];
        for (int i = 0; i < words.length; i++) words[i] = Integer.toString((i * 7919) % 97);
        Arrays.sort(words);
        return words[3].length();
    }
    public static void main(String[] arguments) throws IOException {
        PrintWriter file = new PrintWriter(new FileWriter(arguments[0]), true);
        long said = 0;
        for (long done = 1; ; done++) {
            step(20);
            long now = System.nanoTime();
            if (now - said > 10_000_000) {
                said = now;
                file.println(now / 1e9 + " " + done);
            }
        }
    }
}
"""


class Work:
    """What the program said that it did by when."""

    def __init__(self, path):
        lines = [line.split() for line in open(path).read().split("\n")[:-1]]
        self.times = [float(line[0]) for line in lines]
        self.done = [int(line[1]) for line in lines]

    def at(self, moment):
        index = min(max(bisect.bisect(self.times, moment), 1), len(self.times) - 1)
        (a, b), (x, y) = self.times[index - 1 : index + 1], self.done[index - 1 : index + 1]
        return x + (y - x) * (moment - a) / (b - a)

    def speed(self, window):
        return (self.at(window[1]) - self.at(window[0])) / (window[1] - window[0])


def window_here():
    """A window from now on."""
    time.sleep(SETTLE)
    begin = time.monotonic()
    time.sleep(WINDOW)
    return begin, time.monotonic()


def wait_for_line(process, wanted):
    """Waits until a profiler has said that it records."""
    seen, end = b"", time.monotonic() + 20
    while time.monotonic() < end and wanted.encode() not in seen:
        if not select.select([process.stderr], [], [], 1)[0]:
            continue
        seen += (more := os.read(process.stderr.fileno(), 4096))
        if not more:
            break
    if wanted.encode() not in seen:
        sys.exit(f"{process.args}: {seen.decode()}")


def beside(words, said):
    """A window while a command runs that records for two seconds; the CPU time that it took."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    wait_for_line(process, said)
    window = window_here()
    process.stderr.read()
    process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return window, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def ours(rate, pid, directory):
    words = [VITALFEW, "record", "-F", str(rate), "-o", f"{directory}/r.vf", "--for", "1.8s", "-p", str(pid)]
    return beside(words, "recording cpu-clock")


def spy(rate, pid, directory, *more):
    words = [os.environ["PYSPY"], "record", "-r", str(rate), "-d", "2", "-f", "raw", "-o", f"{directory}/spy", *more, "-p", str(pid)]
    # It says on its standard output that it samples.
    return beside(["sh", "-c", 'exec "$@" >&2', "sh", *words], "Sampling process")


def asynchronous(rate, pid, directory):
    """async-profiler works in the program; its CPU time is that of the program."""
    asprof = os.environ["ASPROF"]
    run = lambda *words: subprocess.run([asprof, *words, str(pid)], check=True, capture_output=True)
    run("start", "-e", "ctimer", "-i", f"{1000000 // rate}us")
    window = window_here()
    run("stop", "-o", "collapsed", "-f", f"{directory}/collapsed")
    return window, 0


def windows(tools, pid, directory):
    """Each tool at each rate in turn, in an order of chance, with a window of nothing between."""
    end = time.monotonic() + float(os.environ.get("SECONDS", "200")) - 4
    seen = [("nothing", 0, window_here(), 0)]
    while time.monotonic() < end:
        cases = [(name, rate) for name in tools for rate in RATES]
        random.shuffle(cases)
        for name, rate in cases:
            window, used = tools[name](rate, pid, directory)
            seen.append((name, rate, window, used))
            seen.append(("nothing", 0, window_here(), 0))
    return seen


def measure(language, path):
    directory = tempfile.mkdtemp()
    log = f"{directory}/work"
    if language == "java":
        with open(f"{directory}/Steady.java", "w") as file:
            file.write(JAVA)
        java = os.environ.get("JAVA", "java")
        subprocess.run([os.path.join(os.path.dirname(os.path.realpath(java)) if "/" in java else "", "javac"), "-d", directory, f"{directory}/Steady.java"], check=True)
        command, tools = [java, "-cp", directory, "Steady", log], {"vitalfew": ours, "async-profiler": asynchronous}
    else:
        command = ["/usr/bin/python3", "-c", PYTHON, log]
        nonblocking = lambda rate, pid, directory: spy(rate, pid, directory, "--nonblocking")
        tools = {"vitalfew": ours, "py-spy": spy, "py-spy --nonblocking": nonblocking}
    cpus = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cpus[:-1])
    program = subprocess.Popen(["taskset", "-c", str(cpus[-1]), *command])
    time.sleep(4)
    try:
        seen = windows(tools, program.pid, directory)
    finally:
        program.kill()
    work = Work(log)
    with open(path, "a") as file:
        for index in range(1, len(seen) - 1, 2):
            name, rate, window, used = seen[index]
            alone = (work.speed(seen[index - 1][2]) + work.speed(seen[index + 1][2])) / 2
            line = {"language": language, "name": name, "rate": rate, "ratio": work.speed(window) / alone, "own_s": used}
            print(json.dumps(line), file=file)


def interval(values, statistic=statistics.median, times=10000):
    chosen = sorted(statistic(random.choices(values, k=len(values))) for _ in range(times))
    return chosen[times // 40], chosen[-times // 40 - 1]


def show(paths):
    """The loss of each, and how much more ours loses than each other one at the same rate."""
    random.seed(1)
    found = {}
    for path in paths:
        for line in map(json.loads, open(path)):
            loss = 100 * (1 - line["ratio"])
            found.setdefault((line["language"], line["rate"], line["name"]), []).append((loss, line["own_s"]))
    for key in sorted(found):
        losses = [loss for loss, _ in found[key]]
        low, high = interval(losses)
        own = statistics.median(own for _, own in found[key])
        print(f"{key[0]:7} {key[1]:>5} Hz {key[2]:22} {len(losses):>4} windows: the program does {statistics.median(losses):+.2f} % less ({low:+.2f} to {high:+.2f}); the profiler took {own:.2f} s of CPU time")
    for language, rate, name in sorted(found):
        if name == "vitalfew":
            continue
        mine, theirs = ([loss for loss, _ in found[language, rate, tool]] for tool in ("vitalfew", name))
        differences = sorted(
            statistics.median(random.choices(mine, k=len(mine))) - statistics.median(random.choices(theirs, k=len(theirs))) for _ in range(10000)
        )
        more = statistics.median(mine) - statistics.median(theirs)
        print(f"{language:7} {rate:>5} Hz: vitalfew costs {more:+.2f} points more than {name} ({differences[250]:+.2f} to {differences[-251]:+.2f})")


def main():
    if len(sys.argv) < 3 or not re.fullmatch("python|java|show", sys.argv[1]):
        sys.exit(__doc__)
    if sys.argv[1] == "show":
        show(sys.argv[2:])
    else:
        measure(sys.argv[1], sys.argv[2])


if __name__ == "__main__":
    main()
