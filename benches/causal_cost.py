"""causal_cost.py VITALFEW [NAME...]: what `causal run` costs: start-up, sampling, delays (the paper's Figure 9).

The programs of tests/programs/causal, SQLite with threads that insert (the paper's workload; its source from the crate
that bundles it), pbzip2 and memcached (Debian's, without debug information: functions of the libraries in which they
work are sped up), each without us, with samples only (--fixed-speedup 0) and with experiments, in turn, CAUSAL_REPEATS (3)
times for CAUSAL_COST (6) seconds. Then the start of a program with 200 MB of debug information, Coz's beside it, what switches
between threads take, and the memory that we take in the target.
"""

import contextlib
import glob
import os
import pathlib
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

import bench
import causal
import report

SECONDS = float(os.environ.get("CAUSAL_COST", "6"))
ROUNDS = 5
GOAL, START_GOAL, MEMORY_GOAL = 0.10, 0.1, 16 << 20
# The program measures its own rate: by clocks that stand still while it is delayed, delays would cost nothing.
REAL = "--real-clocks"
KINDS = {"alone": None, "sampling": ["--fixed-speedup", "0", REAL], "experiments": [REAL]}


def wrapped(options, more=()):
    if options is None:
        return []
    return causal.wrapper(bench.TEMPORARY / "cost.json", *options, *more)


def programs(name):
    """A program that prints its rate or latency."""
    program, _ = causal.build(name)
    return lambda options: causal.run(program, seconds=SECONDS, wrapper=wrapped(options))


def sqlite():
    found = sorted(glob.glob(os.path.expanduser("~/.cargo/registry/src/*/libsqlite3-sys-*/sqlite3/sqlite3.c")))
    if not found:
        return None
    program = bench.TEMPORARY / "inserts_sqlite"
    where = os.path.dirname(found[-1])
    command = ["cc", "-O2", "-g", "-DSQLITE_OMIT_LOAD_EXTENSION", f"-I{where}", bench.HERE / "inserts_sqlite.c", found[-1],
               "-pthread", "-lm", "-o", program]
    subprocess.run(command, check=True)

    def once(options):
        command = [*wrapped(options), program, "4", SECONDS]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
        return causal.period(done.stdout.strip())

    return once


def pbzip2():
    if not shutil.which("pbzip2"):
        return None
    text = bench.TEMPORARY / "text"
    lines = int(1_400_000 * SECONDS)
    text.write_bytes(b"".join(f"{n * n % 9973} {n} line\n".encode() for n in range(lines)))
    more = ["--by", "function", "--scope", "libbz2", "--progress", "syscall:write"]

    def once(options):
        begin = time.monotonic()
        command = [*wrapped(options, more), "pbzip2", "-k", "-f", "-q", "-b1", text]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return time.monotonic() - begin

    return once


def memcached():
    if not (shutil.which("memcached") and shutil.which("memcslap")):
        return None
    port = 21213
    more = ["--by", "function", "--scope", "libevent", "--progress", "syscall:sendmsg"]
    server = ["memcached", "-t", "2", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"]

    def once(options):
        process = bench.start(*wrapped(options, more), *server, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        begin = time.monotonic()
        load = ["memcslap", "-s", f"127.0.0.1:{port}", "-c", "4", "-e", str(int(5000 * SECONDS)), "-t", "get", "-F"]
        subprocess.run(load, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        took = time.monotonic() - begin
        bench.end(process)
        return took

    return once


def costs(workloads):
    """A row for each; the parts are of medians, but experiments differ in what they delay: those are of means."""
    bench.title(f"What experiments cost, runs of {SECONDS:g} s")
    bench.head("program", "sampling", "delays", "together")
    sums = []
    for name, once in workloads.items():
        if once is None:
            bench.row(name, "not here", "", "")
            continue
        periods = {kind: [] for kind in KINDS}
        for _ in range(causal.REPEATS):
            for kind, options in KINDS.items():
                periods[kind].append(once(options))
        alone = statistics.median(periods["alone"])
        sampling = statistics.median(periods["sampling"]) / alone - 1
        together = statistics.mean(periods["experiments"]) / alone - 1
        sums.append((sampling, together - sampling, together))
        bench.row(name, *(f"{100 * part:+.1f}%" for part in sums[-1]))
    if sums:
        means = [statistics.mean(part) for part in zip(*sums)]
        bench.row("**mean**", *(f"{100 * part:+.1f}%" for part in means))
        print(f"\nGoal {100 * GOAL:.0f}%: {bench.verdict(means[2], GOAL)} (the paper: 17.6%)")


def start():
    """From the command to the end of a program that ends at once."""
    report.built()
    bench.title(f"Start and end of a program with {report.debug_bytes() / 1e6:.0f} MB of debug information")
    bench.head("", "wall, median", "added", "goal", "")
    methods = {"alone": [], "vitalfew causal run": wrapped([])}
    if shutil.which("coz"):
        methods["coz run"] = ["coz", "run", "-o", bench.TEMPORARY / "coz", "---"]
    walls = {}
    for name, before in methods.items():
        command = [*before, report.PROGRAM, "0"]
        rounds = 1 if name == "coz run" else ROUNDS
        tried = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=300)
        if tried.returncode:
            # Debian's Coz reads DWARF up to version 4.
            bench.row(name, f"ends with {tried.returncode}: {tried.stderr.strip().splitlines()[-1:]}", "", "", "")
            continue
        times = [bench.measured(*command, patience=120) for _ in range(rounds)]
        if None in times:
            bench.row(name, "> 120 s", "", "", "")
            continue
        walls[name] = statistics.median(wall for _, wall, _ in times)
        added = walls[name] - walls["alone"]
        goal = ("≤ 100 ms", bench.verdict(added, START_GOAL)) if name == "vitalfew causal run" else ("", "")
        bench.row(name, f"{walls[name]:.3f} s", f"{1000 * added:.0f} ms" if name != "alone" else "", *goal)


def switches():
    """Two threads on one processor that pass a byte to and fro."""
    bench.title("What a switch between threads takes")
    program = bench.TEMPORARY / "switches"
    source = bench.HERE / "switches.c"
    subprocess.run(["cc", "-O2", "-g", "-pthread", source, "-o", program], check=True)
    ways = {
        "alone": [program, "0"],
        "a timer of each thread": [program, "1"],
        "vitalfew causal run": [*wrapped(KINDS["sampling"]), program, "0"],
    }
    took = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, command in ways.items():
            done = subprocess.run([str(word) for word in command] + ["100000"], capture_output=True, text=True, check=True)
            took[way].append(float(done.stdout))
    bench.head("", "a round of two, median")
    for way, values in took.items():
        bench.row(way, f"{statistics.median(values):.1f} µs")


def memory():
    """Resident pages of the runtime and of what it shares with the controller, in the target, with eight threads."""
    bench.title("Memory in the target")
    program, _ = causal.build("many_threads")
    process = bench.start(*wrapped([]), program, "none", "0", "6", stdout=subprocess.DEVNULL)
    time.sleep(4)
    child = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
    taken, ours = 0, False
    for line in pathlib.Path(f"/proc/{child}/smaps").read_text().splitlines():
        if re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
            ours = "vitalfew" in line
        elif ours and line.startswith("Rss:"):
            taken += int(line.split()[1]) << 10
    process.wait(60)
    bench.head("program", "resident", "goal", "")
    bench.row("many_threads", f"{taken / 2**20:.1f} MiB", "≤ 16 MiB", bench.verdict(taken, MEMORY_GOAL))


def main():
    makers = {name: lambda name=name: programs(name) for name in causal.PROGRAMS}
    makers |= {"sqlite": sqlite, "pbzip2": pbzip2, "memcached": memcached}
    named = sys.argv[2:]
    wanted = [name for name in named if name in makers] or ([] if named else list(makers))
    if wanted:
        costs({name: makers[name]() for name in wanted})
    for part in (start, switches, memory):
        if not named or part.__name__ in named:
            part()


if __name__ == "__main__":
    main()
