"""interference.py VITALFEW: what tracing a call costs, beside uftrace; the paper's correlations and its sampling.

`calls` are the CPU times of a call in a tight loop, interleaved, the least of all rounds. The correlations are of
the ISPOT paper's Table 1 (tests/programs/interference/contention.c, Listings 1 to 3): the mean time of a block against its
score, over ten delays, medians of the rounds; their threads run in the real-time class, each on a CPU of its own.
INTERFERENCE_ROUNDS (3) is how often each is measured, INTERFERENCE_PARTS (calls correlations sampling programs) what.
"""

import contextlib
import json
import math
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import time

import bench
from bench import VITALFEW

ROUNDS = int(os.environ.get("INTERFERENCE_ROUNDS", "3"))
PROGRAMS = bench.HERE.parent / "tests/programs/interference"
RUNTIME = os.environ.get("INTERFERENCE_RUNTIME")
STAMPS_GOAL, UFTRACE_GOAL = 8, 1 / 3


def run(options, *command, enter=None):
    """The trace's report and what the command printed."""
    trace = bench.TEMPORARY / "trace"
    runtime = ["--runtime", RUNTIME] if RUNTIME else []
    output = subprocess.run(
        [VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, *options, "--", *command],
        capture_output=True, text=True, check=True, cwd=bench.TEMPORARY, preexec_fn=enter)
    report = subprocess.run([VITALFEW, "interference", "report", "--json", "--all", trace],
                            capture_output=True, text=True)
    return json.loads(report.stdout or "null"), output.stdout, trace


def uprobes(program):
    """The kernel's probes at a function's entry and return, counted only."""
    subprocess.run(["perf", "probe", "-q", "-x", program, "--add", "vf_in=called", "--add", "vf_out=called%return"],
                   capture_output=True)
    try:
        output = subprocess.run(["perf", "stat", "-e", "probe_calls:vf_in,probe_calls:vf_out*", program, "20", "2000"],
                                capture_output=True, text=True)
        return output.stdout
    finally:
        subprocess.run(["perf", "probe", "-q", "-d", "probe_calls:vf_*"], capture_output=True)


def calls():
    bench.title("A traced call (enter and leave), ns of CPU time: least of all rounds / median of medians")
    program = bench.compiled("calls")
    traced = bench.TEMPORARY / "calls-pg"
    subprocess.run(["cc", "-O2", "-pg", bench.HERE / "calls.c", "-o", traced], check=True)
    arguments = ["1000", "2000"]  # some of them short enough that nothing interrupts them

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
    if os.geteuid() == 0 and shutil.which("perf"):
        methods["uprobe and uretprobe, perf stat"] = lambda: uprobes(program)
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


def contention():
    program = bench.TEMPORARY / "contention"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, PROGRAMS / "contention.c"], check=True)
    return program


@contextlib.contextmanager
def throttled(path, reads_a_second):
    """A cgroup whose processes read so often a second from a file's disk; None where that cannot be."""
    device = os.stat(path).st_dev
    device = f"{os.major(device)}:{os.minor(device)}"
    found = None
    for root, file, rule in (
            (pathlib.Path("/sys/fs/cgroup/blkio"), "blkio.throttle.read_iops_device", f"{device} {reads_a_second}"),
            (pathlib.Path("/sys/fs/cgroup"), "io.max", f"{device} riops={reads_a_second}")):
        group = root / f"vitalfew-bench-{os.getpid()}"
        try:
            group.mkdir()
            (group / file).write_text(rule)
            found = group
            break
        except OSError:
            with contextlib.suppress(OSError):
                group.rmdir()
    try:
        yield found
    finally:
        if found:
            found.rmdir()


# Block, threads, iterations, delays (turns of an empty loop; microseconds for the disk), the paper's correlation, ours.
KINDS = {
    "lock": ("acquire", 2, 100_000, [0, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800], 0.99, None),
    "spin": ("acquire_spinning", 2, 100_000, [0, 50, 100, 200, 400, 800, 1600, 3200, 6400, 12800], 0.95, None),
    "sharing": ("share", 2, 100_000, [0, 100, 200, 400, 800, 1600, 3200, 6400, 12800, 25600], 0.95, 0.95),
    "disk": ("read_block", 16, 300, [0, 250, 500, 750, 1000, 1500, 2000, 2500, 3000, 4000], 0.99, 0.95),
}


def point(program, kind, delay, options=(), file=None, group=None):
    """What a run says of the block: its finding."""
    block, threads, iterations, _, _, _ = KINDS[kind]
    if kind != "disk" and bench.can_be_real_time():
        os.environ["REAL_TIME"] = "1"
    enter = (lambda: (group / "cgroup.procs").write_text(str(os.getpid()))) if group else None
    report, _, _ = run(["-f", block, "--overhead", "100", *options], program, kind, str(delay), str(threads),
                       str(iterations), *([file] if file else []), enter=enter)
    os.environ.pop("REAL_TIME", None)
    return next((f for f in (report or {}).get("findings", []) if f["name"] == block), None)


# Nothing but an interrupt, or a CPU that the host has taken away, makes these blocks take so long.
INTERRUPTED_NS = 5000


def uninterrupted(kind, finding):
    """Mean and score without what other programs and the host cause: waits for a CPU, and executions of blocks that never
    wait that are too long for anything else."""
    if kind not in ("spin", "sharing"):
        return finding["mean_with_cpu_ns"], finding["sci"]["estimate"] - finding["scheduler"]
    kept = [step for step in finding["curve"] if step["up_to_ns"] <= INTERRUPTED_NS]
    total, calls = sum(s["up_to_ns"] * s["calls"] for s in kept), sum(s["calls"] for s in kept)
    time = sum(thread["duration_ns"] for thread in finding["threads"]) - (finding["total_ns"] - total)
    return total / calls, (total - calls * finding["floor"]["ns"]) / time


def correlation(points, x, y):
    """Pearson's, of two columns."""
    column = lambda at: [point[at] for point in points]
    return statistics.correlation(column(x), column(y)) if len(points) > 2 else math.nan


def correlations():
    """In rounds, so that what disturbs the machine for a while disturbs all delays."""
    bench.title("Mean time of a block against its score (Table 1), and the floor (Figure 7)")
    program = contention()
    disk = bench.HERE.parent / f"target/bench-disk-{os.getpid()}"
    disk.parent.mkdir(exist_ok=True)
    disk.write_bytes(os.urandom(32 << 20))
    os.sync()
    found = {kind: {delay: [] for delay in KINDS[kind][3]} for kind in KINDS}
    try:
        with throttled(disk, 6000) as group:
            if not group:
                print("\nThe disk cannot be throttled here: its row is of the disk as it is.")
            for _ in range(ROUNDS):
                for kind, delays in found.items():
                    for delay, findings in delays.items():
                        extra = {"file": str(disk), "group": group} if kind == "disk" else {}
                        if finding := point(program, kind, delay, **extra):
                            findings.append(finding)
    finally:
        disk.unlink()
    bench.head("block", "delays", "correlation", "without interruptions", "the paper's", "goal", "", "score, least delay", "most delay",
               "floor, least delay", "most delay")
    rows = []
    for kind, delays in found.items():
        points = []
        for delay, findings in delays.items():
            if not findings:
                continue
            middle = lambda value: statistics.median(value(f) for f in findings)
            points.append((middle(lambda f: f["mean_ns"]), middle(lambda f: f["sci"]["estimate"]),
                           middle(lambda f: f["floor"]["ns"]), middle(lambda f: uninterrupted(kind, f)[0]),
                           middle(lambda f: uninterrupted(kind, f)[1])))
            rows.append((kind, delay, *points[-1]))
        _, _, _, _, paper, goal = KINDS[kind]
        rho, rho_clean = correlation(points, 0, 1), correlation(points, 3, 4)
        verdict = ("met" if rho >= goal else "met without interruptions" if rho_clean >= goal else "**missed**") if goal else ""
        bench.row(kind, len(points), f"{rho:.3f}", f"{rho_clean:.3f}", paper, f"≥ {goal}" if goal else "-", verdict,
                  f"{points[0][1]:.3f}", f"{points[-1][1]:.3f}", f"{points[0][2]:.0f} ns", f"{points[-1][2]:.0f} ns")
    bench.title("The same, by delay")
    bench.head("block", "delay", "mean, ns", "score", "floor, ns", "without interruptions: mean, ns", "score")
    for kind, delay, mean, score, floor, mean_clean, score_clean in rows:
        bench.row(kind, delay, f"{mean:.0f}", f"{score:.3f}", f"{floor:.0f}", f"{mean_clean:.0f}",
                  f"{score_clean:.3f}")


def sampling():
    bench.title("The score of a contended lock when one execution in N is recorded (Figure 8)")
    program = contention()
    found = {every: [] for every in (1, 8, 64, 512, 4096)}
    for _ in range(3 * ROUNDS):
        for every, findings in found.items():
            if finding := point(program, "lock", 100, ["--every", str(every)]):
                findings.append(finding)
    bench.head("N", "runs", "score: least", "mean", "most", "floor")
    for every, findings in found.items():
        if findings:
            scores = [f["sci"]["estimate"] for f in findings]
            floor = statistics.median(f["floor"]["ns"] for f in findings)
            bench.row(every, len(scores), f"{min(scores):.3f}", f"{statistics.mean(scores):.3f}",
                      f"{max(scores):.3f}", f"{floor:.0f} ns")


def causes():
    """Programs with one known cause, and without it."""
    bench.title("Known causes, and their repair: the highest score of any function, least and most of the rounds")
    program = bench.TEMPORARY / "causes"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, PROGRAMS / "causes.c"], check=True)
    names = ["count", "meet", "bump", "keep", "take", "fdatasync", "read", "pthread_mutex_*lock", "pthread_barrier_wait"]
    options = ["--overhead", "100", *(word for name in names for word in ("-f", name))]

    def highest(*arguments):
        """With and without waiting for a CPU."""
        report, _, _ = run(options, program, *arguments)
        scores = [(f["sci"]["estimate"], f["sci"]["estimate"] - f["scheduler"]) for f in (report or {}).get("findings", [])
                  if not any(doubt["kind"] == "idle" for doubt in f["doubts"])]
        return [max(column) for column in zip(*scores)]

    bench.head("cause", "contended", "repaired", "repaired, without waiting for a CPU", "goal", "")
    for kind in ("lock", "barrier", "sharing", "disk", "pool"):
        if kind in ("lock", "sharing") and bench.can_be_real_time():
            os.environ["REAL_TIME"] = "1"
        contended = [highest(kind) for _ in range(ROUNDS)]
        repaired = [highest(kind, "repaired") for _ in range(ROUNDS)]
        os.environ.pop("REAL_TIME", None)
        spread = lambda rows, at: f"{min(r[at] for r in rows):.2f}, {max(r[at] for r in rows):.2f}"
        bench.row(kind, spread(contended, 0), spread(repaired, 0), spread(repaired, 1), "< 0.1",
                  bench.verdict(max(r[1] for r in repaired), 0.1))


def leveldb():
    program = bench.TEMPORARY / "inserts"
    subprocess.run(["cc", "-O2", "-g", "-pthread", "-o", program, bench.HERE / "inserts.c", "-lleveldb"], check=True)
    directory = bench.TEMPORARY / "leveldb"

    def command():
        shutil.rmtree(directory, ignore_errors=True)
        return [str(program), str(directory), "4", "200000"]

    functions = ["leveldb_put", "pthread_mutex_*lock", "pthread_cond_wait", "pthread_cond_signal", "write", "fdatasync"]
    return command, [word for name in functions for word in ("-f", name)]


def compressor():
    text = bench.TEMPORARY / "text"
    text.write_bytes(b"".join(f"{n * n % 9973} {n} line\n".encode() for n in range(1_200_000)))
    return lambda: ["xz", "-1", "-T2", "--block-size=1MiB", "-k", "-f", str(text)], []


def independent():
    """Workers that share nothing but the jobs' list."""
    _, functions = compressor()
    return lambda: ["zstd", "-12", "-T2", "-q", "-k", "-f", str(bench.TEMPORARY / "text")], functions


def serve(memcached, port):
    """Loads a server, and ends it: seconds that the load took."""
    process = bench.start(*memcached, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, cwd=bench.TEMPORARY)
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            break
        time.sleep(0.05)
    begin = time.monotonic()
    subprocess.run(["memcslap", "-s", f"127.0.0.1:{port}", "-c", "4", "-e", "30000", "-t", "get", "-F"],
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
    took = time.monotonic() - begin
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGTERM)
    process.wait(60)
    return took


def programs():
    """Wall time of programs, traced and not, in turn."""
    bench.title("Programs of others, traced with the default overhead: wall time, medians")
    bench.head("program", "alone, s", "traced, s", "overhead", "goal", "", "functions with most lost: program loses, SCI, cause")
    trace = bench.TEMPORARY / "trace"
    runtime = ["--runtime", RUNTIME] if RUNTIME else []

    def first(report):
        named = []
        for f in (report or {}).get("findings", [])[:3]:
            cause = f["causes"][0]["kind"] if f["causes"] else "-"
            named.append(f"{f['name']} {f['program']['estimate']:.2f}, {f['sci']['estimate']:.2f}, {cause}")
        return "; ".join(named)

    def compare(name, alone, traced):
        times = {"alone": [], "traced": []}
        for _ in range(max(ROUNDS, 3)):
            times["alone"].append(alone())
            seconds, report = traced()
            times["traced"].append(seconds)
        least, most = (statistics.median(times[key]) for key in ("alone", "traced"))
        overhead = most / least - 1
        bench.row(name, f"{least:.2f}", f"{most:.2f}", f"{100 * overhead:.1f}%", "≤ 5%", bench.verdict(overhead, 0.05), first(report))

    def batch(make):
        command, functions = make()

        def traced():
            report, _, _ = run(functions, *command())
            return report["duration_ns"] / 1e9, report

        return lambda: bench.measured(*command())[1], traced

    if pathlib.Path("/usr/include/leveldb/c.h").exists():
        compare("LevelDB, 4 threads insert", *batch(leveldb))
    if shutil.which("xz"):
        compare("xz -T2", *batch(compressor))
    if shutil.which("zstd"):
        compare("zstd -T2", *batch(independent))
    if shutil.which("memcached") and shutil.which("memcslap"):
        port = 21211
        server = ["memcached", "-t", "2", "-l", "127.0.0.1", "-p", str(port), "-U", "0", "-u", "nobody"]
        functions = [word for name in ("pthread_mutex_*lock", "pthread_cond_*", "read", "sendmsg", "epoll_wait")
                     for word in ("-f", name)]
        traced = [VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, *functions, "--", *server]

        def served():
            seconds = serve(traced, port)
            output = subprocess.run([VITALFEW, "interference", "report", "--json", "--all", trace], capture_output=True, text=True)
            return seconds, json.loads(output.stdout or "null")

        compare("memcached -t 2, memcslap", lambda: serve(server, port), served)


if __name__ == "__main__":
    parts = {"calls": calls, "correlations": correlations, "sampling": sampling, "causes": causes, "programs": programs}
    asked = os.environ.get("INTERFERENCE_PARTS", "").split() or list(parts)
    for part in asked:
        parts[part]()
