"""interference.py VITALFEW: what tracing a call costs, beside uftrace; the paper's correlations and its sampling.

`calls` are the CPU times of a call in a tight loop, interleaved, the least of all rounds. The correlations are of
the ISPOT paper's Table 1 (tests/programs/interference/contention.c, Listings 1 to 3): the mean time of a block against its
score, over ten delays. INTERFERENCE_ROUNDS (3) is how often each is measured.
"""

import json
import os
import shutil
import statistics
import subprocess
import sys

import bench

ROUNDS = int(os.environ.get("INTERFERENCE_ROUNDS", "3"))
PROGRAMS = bench.HERE.parent / "tests/programs/interference"
RUNTIME = os.environ.get("INTERFERENCE_RUNTIME")
STAMPS_GOAL, UFTRACE_GOAL = 8, 1 / 3


def run(options, *command, rounds=1):
    """The trace's report and what the command printed."""
    trace = bench.TEMPORARY / "trace"
    runtime = ["--runtime", RUNTIME] if RUNTIME else []
    output = subprocess.run(
        [bench.VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, *options, "--", *command],
        capture_output=True, text=True, check=True, cwd=bench.TEMPORARY)
    report = subprocess.run([bench.VITALFEW, "interference", "report", "--json", "--all", trace],
                            capture_output=True, text=True)
    return json.loads(report.stdout or "null"), output.stdout, trace


def calls():
    bench.title("A traced call (enter and leave), ns of CPU time: least of all rounds / median of medians")
    program = bench.compiled("calls")
    traced = bench.TEMPORARY / "calls-pg"
    subprocess.run(["cc", "-O2", "-pg", bench.HERE / "calls.c", "-o", traced], check=True)
    arguments = ["20", "300000"]

    def plain(*more):
        return subprocess.run([program, *arguments, *more], capture_output=True, text=True, check=True).stdout

    def uftrace(executable, *options):
        data = bench.TEMPORARY / "uftrace"
        shutil.rmtree(data, ignore_errors=True)
        output = subprocess.run(["uftrace", "record", "-d", data, *options, executable, *arguments],
                                capture_output=True, text=True)
        lines = [line for line in output.stdout.splitlines() if len(line.split()) == 2]
        return lines[-1] if lines else None

    every = ["-f", "called", "--overhead", "100"]
    methods = {
        "not traced": lambda: plain(),
        "between two time stamps": lambda: plain("stamped"),
        "vitalfew interference run": lambda: run(every, program, *arguments)[1],
        "vitalfew, --no-arguments": lambda: run([*every, "--no-arguments"], program, *arguments)[1],
        "vitalfew, 1 call in 1000": lambda: run(["-f", "called", "--every", "1000"], program, *arguments)[1],
    }
    if shutil.which("uftrace"):
        methods["uftrace, -pg"] = lambda: uftrace(traced)
        methods["uftrace, dynamic"] = lambda: uftrace(program, "-P", "called")
    found = {name: [] for name in methods}
    for _ in range(ROUNDS):
        for name, method in methods.items():
            if text := method():
                found[name].append([float(cell) for cell in text.split()])
    bench.head("", "least", "median")
    least = {}
    for name, costs in found.items():
        if costs:
            least[name] = min(cost[0] for cost in costs)
            bench.row(name, f"{least[name]:.1f}", f"{statistics.median(cost[1] for cost in costs):.1f}")
        else:
            bench.row(name, "-", "failed")
    for name in ("vitalfew interference run", "vitalfew, --no-arguments"):
        beyond = least[name] - least["between two time stamps"]
        print(f"\n{name}, beyond two time stamps: {beyond:.1f} ns, goal {STAMPS_GOAL}: {bench.verdict(beyond, STAMPS_GOAL)}")
    if "uftrace, dynamic" in least:
        ratio = least["vitalfew interference run"] / least["uftrace, dynamic"]
        print(f"Of uftrace's dynamic tracing: {ratio:.2f}, goal {UFTRACE_GOAL:.2f}: {bench.verdict(ratio, UFTRACE_GOAL)}")


def correlation(points):
    """Pearson's."""
    return statistics.correlation(*zip(*points)) if len(points) > 2 else float("nan")


def correlations():
    bench.title("Mean time of a block against its score (Table 1), and the floor (Figure 7)")
    program = bench.TEMPORARY / "contention"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, PROGRAMS / "contention.c"], check=True)
    disk = bench.TEMPORARY / "disk"
    disk.write_bytes(os.urandom(32 << 20))
    delays = [0, 25, 50, 100, 200, 400, 800, 1600, 3200, 6400]
    kinds = {
        "lock": ("lock_section", 2, 200_000, [], 0.94),
        "spin": ("spin_section", 2, 200_000, [], 0.95),
        "sharing": ("share", 2, 100_000, [], 0.95),
        "disk": ("read_block", 8, 300, [str(disk)], 0.95),
    }
    bench.head("block", "delays", "correlation", "the paper's", "goal", "score, least delay", "most delay",
               "floor, least delay", "most delay")
    paper = {"lock": 0.99, "spin": 0.95, "sharing": 0.95, "disk": 0.99}
    goals = {"sharing": 0.95, "disk": 0.95}
    for kind, (block, threads, iterations, more, _) in kinds.items():
        points, floors = [], []
        for delay in delays:
            turns = delay * (200 if kind == "disk" else 1)
            options = ["-f", block, "--overhead", "100"]
            findings = []
            for _ in range(ROUNDS):
                report, _, _ = run(options, program, kind, str(turns), str(threads), str(iterations), *more)
                findings += [f for f in (report or {}).get("findings", []) if f["name"] == block]
            if findings:
                middle = lambda value: statistics.median(value(f) for f in findings)
                points.append((middle(lambda f: f["mean_ns"]), middle(lambda f: f["sci"]["estimate"])))
                floors.append(middle(lambda f: f["floor"]["ns"]))
        bench.row(kind, len(points), f"{correlation(points):.2f}", paper[kind], goals.get(kind, "-"),
                  f"{points[0][1]:.2f}", f"{points[-1][1]:.2f}", f"{floors[0]:.0f} ns", f"{floors[-1]:.0f} ns")


def sampling():
    bench.title("The score of a contended lock when one execution in N is recorded (Figure 8)")
    program = bench.TEMPORARY / "contention"
    bench.head("N", "score: least", "mean", "most", "floor")
    for every in (1, 8, 64, 512, 4096):
        scores, floors = [], []
        for _ in range(2 * ROUNDS):
            options = ["-f", "lock_section", "--every", str(every), "--overhead", "100"]
            report, _, _ = run(options, program, "lock", "100", "2", "200000")
            for finding in (report or {}).get("findings", []):
                scores.append(finding["sci"]["estimate"])
                floors.append(finding["floor"]["ns"])
        if scores:
            bench.row(every, f"{min(scores):.2f}", f"{statistics.mean(scores):.2f}", f"{max(scores):.2f}",
                      f"{statistics.median(floors):.0f} ns")


if __name__ == "__main__":
    calls()
    correlations()
    sampling()
    sys.exit(0)
