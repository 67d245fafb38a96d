"""interference.py VITALFEW: what tracing a call costs, beside uftrace, and what it costs programs of others.

`calls` are the CPU times of a call in a tight loop, interleaved, the least of all rounds. INTERFERENCE_ROUNDS (3) is how often each is
measured, INTERFERENCE_PARTS (calls programs) what.
"""

import contextlib
import json
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
RUNTIME = os.environ.get("INTERFERENCE_RUNTIME")
STAMPS_GOAL, UFTRACE_GOAL = 8, 1 / 3


def run(options, *command):
    """The trace's report and what the command printed."""
    trace = bench.TEMPORARY / "trace"
    runtime = ["--runtime", RUNTIME] if RUNTIME else []
    output = subprocess.run(
        [VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, *options, "--", *command],
        capture_output=True, text=True, check=True, cwd=bench.TEMPORARY)
    report = subprocess.run([VITALFEW, "interference", "report", "--json", "--all", trace],
                            capture_output=True, text=True)
    return json.loads(report.stdout or "null"), output.stdout


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
    beyond = least["vitalfew interference run"] - least["between two time stamps"]
    print(f"\nBeyond two time stamps: {beyond:.1f} ns, goal {STAMPS_GOAL}: {bench.verdict(beyond, STAMPS_GOAL)}")
    if "uftrace, dynamic" in least:
        ratio = least["vitalfew interference run"] / least["uftrace, dynamic"]
        print(f"Of uftrace's dynamic tracing: {ratio:.2f}, goal {UFTRACE_GOAL:.2f}: {bench.verdict(ratio, UFTRACE_GOAL)}")


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
    bench.head("program", "alone, s", "traced, s", "overhead", "goal", "", "first functions: lost, cause")
    trace = bench.TEMPORARY / "trace"
    runtime = ["--runtime", RUNTIME] if RUNTIME else []

    def first(report):
        lost = [f for f in (report or {}).get("functions", [])[:3] if f["loss"] and f["loss"]["is_claimed"]]
        return "; ".join(f"{f['name']} {f['loss']['loss']['estimate']:.2f}, {f['cause'] or 'not known'}" for f in lost)

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
            report, _ = run(functions, *command())
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
    parts = {"calls": calls, "programs": programs}
    asked = os.environ.get("INTERFERENCE_PARTS", "").split() or list(parts)
    for part in asked:
        parts[part]()
