"""continuous.py VITALFEW: what the daemon costs beyond the bare interrupt, and a query over a week.

The cost is the time in the BPF program above that in an empty one, as the kernel counts it, and the CPU time of
the daemon and of its merges. The week is a recorded compile, seven times as an epoch.
"""

import json
import os
import shutil
import subprocess
import time

import bench

GOAL = 0.01  # of the machine
MEMORY_GOAL = 20 << 20
QUERY_GOAL = 0.5
SETTLE = 5
STEADY = max(20, bench.SECONDS)
INTERVAL, MERGE = 10, 25  # oftener than by default, so that the time measured holds several


def cpu_time(pid):
    """Seconds of a process and of its children that ended."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def runs_of(command):
    """Nanoseconds of a run of a program that an idle moment gives."""
    profiler = bench.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.samples_taken(profiler)
    with bench.bpf_statistics():
        runs, spent = bench.bpf_runs(profiler.pid)
        time.sleep(3)
        runs_after, spent_after = bench.bpf_runs(profiler.pid)
    bench.end(profiler)
    return (spent_after - spent) / max(1, runs_after - runs)


def cost():
    project = bench.make_c_project(bench.TEMPORARY / "project")
    spin = [["sh", "-c", "while :; do :; done"]] * len(bench.CPUS)
    compiling = [bench.compile_for(project, 2 * SETTLE + STEADY + 30)]
    bench.title(f"Cost of the daemon beyond the bare interrupt, {bench.HERTZ} Hz on {len(bench.CPUS)} CPUs, {STEADY:.0f} s")
    bench.head("load", "in the kernel", "daemon and merges", "together", "goal", "", "peak memory", "goal", "", "taken = stored + dropped")
    for name, load in (("spin", spin), ("compile", compiling)):
        loads = [bench.start(*words) for words in load]
        empty = runs_of([bench.compiled("empty"), bench.HERTZ])
        database = bench.TEMPORARY / f"daemon-{name}"
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        daemon = bench.start(
            bench.VITALFEW, "daemon", "run", "--db", database, "-F", bench.HERTZ, "--budget", "100",
            "--interval", f"{INTERVAL}s", "--merge", f"{MERGE}s", **silent,
        )
        bench.samples_taken(daemon)
        time.sleep(SETTLE)
        with bench.bpf_statistics():
            (runs, spent), cpu, begin = bench.bpf_runs(daemon.pid), cpu_time(daemon.pid), time.monotonic()
            time.sleep(STEADY)
            (runs_after, spent_after), cpu_after = bench.bpf_runs(daemon.pid), cpu_time(daemon.pid)
            machine = (time.monotonic() - begin) * len(bench.CPUS)
        memory = peak(daemon.pid)
        bench.stop(daemon)
        for process in loads:
            bench.end(process)
        events = subprocess.run(
            [bench.VITALFEW, "query", "--db", database, "--json", "SELECT sum(taken) t, sum(stored) s, sum(dropped) d FROM events"],
            check=True, capture_output=True,
        )
        account = json.loads(events.stdout)[0]
        kernel = (spent_after - spent - empty * (runs_after - runs)) / 1e9 / machine
        own = (cpu_after - cpu) / machine
        bench.row(
            name, f"{kernel:.2%}", f"{own:.2%}", f"{kernel + own:.2%}", f"≤ {GOAL:.0%}", bench.verdict(kernel + own, GOAL),
            f"{memory / 1e6:.1f} MB", f"≤ {MEMORY_GOAL >> 20} MiB", bench.verdict(memory, MEMORY_GOAL),
            f"{account['t']:,} = {account['s']:,} + {account['d']:,}" + ("" if account["t"] == account["s"] + account["d"] else " **WRONG**"),
        )


def query():
    database = bench.TEMPORARY / "week"
    project = bench.make_c_project(bench.TEMPORARY / "week-project")
    load = bench.start(*bench.compile_for(project, bench.SECONDS))
    command = bench.vitalfew_record("-a", "--for", f"{bench.SECONDS:.0f}s", "--db", database)
    subprocess.run([str(word) for word in command], check=True, stdout=subprocess.DEVNULL)
    bench.end(load)
    (epoch,) = database.glob("epoch=*")
    stamp = epoch.name.removeprefix("epoch=")
    for day in range(1, 7):
        shutil.copytree(epoch, database / f"epoch={stamp[:9]}{day:02}{stamp[11:]}")
    size = sum(path.stat().st_size for path in database.rglob("*") if path.is_file())
    top = "SELECT image, procedure, sum(count) AS n FROM samples GROUP BY 1, 2 ORDER BY n DESC LIMIT 20"
    bench.title("Seven epochs, each a recorded compile: top procedures")
    bench.head("command", "samples", "size", "CPU", "wall", "goal", "")
    rows = [bench.VITALFEW, "query", "--db", database, "--json", "SELECT sum(samples) n FROM epochs"]
    samples = json.loads(subprocess.run(rows, check=True, capture_output=True).stdout)[0]["n"]
    for name, command in (
        ("query", [bench.VITALFEW, "query", "--db", database, top]),
        ("report", [bench.VITALFEW, "report", database, "--epoch", ".."]),
    ):
        found = sorted(bench.measured(*command)[:2] for _ in range(5))
        cpu, wall = found[len(found) // 2]
        bench.row(name, f"{samples:,}", f"{size / 1e6:.1f} MB", f"{cpu:.2f} s", f"{wall:.2f} s", f"≤ {QUERY_GOAL} s", bench.verdict(wall, QUERY_GOAL))


if __name__ == "__main__":
    cost()
    query()
