"""continuous_stacks.py VITALFEW [LOAD...]: what the daemon costs with call stacks and without, in turn, at the rate that its budget allows.

Loads: `idle`, `compile` (many short processes), `scripts` (a Python and a Node.js program). Of each figure the median of ROUNDS (3) runs of
SPAN (20) seconds. "Kernel" is the time of the BPF program; the cost of a sample, which includes the interrupt, is the daemon's own figure; own CPU is
that of the daemon and of what it starts. The disk space of a day is that of one closed epoch of the run, as if the day went on like this and nothing merged.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import bench
from continuous import cpu_time, peak

ROUNDS = int(os.environ.get("ROUNDS", "3"))
SPAN = float(os.environ.get("SPAN", "20"))
SETTLE = 6
GOAL = 0.03  # of the machine: what DCPI took at most
SHARES = bench.HERE / "../tests/programs/languages"
SILENT = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


def load_commands(name):
    if name == "idle":
        return []
    if name == "compile":
        project = bench.TEMPORARY / "project"
        if not project.exists():
            bench.make_c_project(project)
        return [bench.compile_for(project, 3600)]
    return [["python3", SHARES / "shares.py", "3600", "recursive"], ["node", SHARES / "shares.js", "3600", "recursive"]]


def status(database):
    command = [bench.VITALFEW, "daemon", "status", "--json", "--db", database]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def wait_for_answer(database):
    for _ in range(600):
        if next(database.glob(".daemon/*/socket"), None):
            return
        time.sleep(0.1)
    sys.exit("continuous_stacks: the daemon did not start")


def size_of(directory):
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def measured_run(database, how):
    """The figures of one daemon, while a load runs."""
    daemon = bench.start(bench.VITALFEW, "daemon", "run", "--db", database, how, "--interval", "5s", "--merge", "10s", **SILENT)
    wait_for_answer(database)
    time.sleep(SETTLE)
    subprocess.run([bench.VITALFEW, "daemon", "epoch", "--db", database], check=True, **SILENT)
    with bench.bpf_statistics():
        before, (runs, spent), cpu, begin = status(database), bench.bpf_runs(daemon.pid), cpu_time(daemon.pid), time.monotonic()
        time.sleep(SPAN)
        (runs_after, spent_after), cpu_after, seconds = bench.bpf_runs(daemon.pid), cpu_time(daemon.pid), time.monotonic() - begin
    subprocess.run([bench.VITALFEW, "daemon", "epoch", "--db", database], check=True, **SILENT)
    after, memory = status(database), peak(daemon.pid)
    bench.stop(daemon)
    machine = seconds * len(bench.CPUS)
    epochs = sorted(path for path in database.glob("epoch=*/host=*"))
    walked = {name: after["stacks"][name] - before["stacks"][name] for name in ("stacks", "complete")} if after["stacks"] else None
    samples = runs_after - runs
    own = (cpu_after - cpu) / machine
    sampling = samples * after["sample_cost_ns"] / 1e9 / machine
    return {
        "rate": after["frequency"],
        "cost": after["sample_cost_ns"] / 1e3,
        "kernel": (spent_after - spent) / max(1, samples) / 1e3,
        "sampling": sampling,
        "own": own,
        "together": sampling + own,
        "memory": memory,
        "disk": size_of(epochs[1]) / seconds * 86400,
        "whole": walked and walked["complete"] / max(1, walked["stacks"]),
        "dropped": after["dropped"],
    }


def main():
    os.environ["XDG_CACHE_HOME"] = str(bench.TEMPORARY / "cache")
    bench.title(f"The daemon with call stacks and without, {ROUNDS} runs of {SPAN:.0f} s each in turn, {len(bench.CPUS)} CPUs")
    bench.head("load", "", "rate", "cost of a sample", "kernel", "sampling", "own CPU", "together", "goal", "", "peak memory", "disk a day", "whole stacks", "dropped")
    for load in sys.argv[2:] or ("idle", "compile", "scripts"):
        found = {"--no-stacks": [], "--stacks": []}
        running = [bench.start(*words, **SILENT) for words in load_commands(load)]
        for number in range(ROUNDS):
            for how, runs in found.items():
                runs.append(measured_run(bench.TEMPORARY / f"{load}{how}{number}", how))
        for process in running:
            bench.end(process)
        for how, runs in found.items():
            middle = {name: statistics.median(run[name] for run in runs) if runs[0][name] is not None else None for name in runs[0]}
            bench.row(
                load, how, f"{middle['rate']:,} Hz", f"{middle['cost']:.1f} µs", f"{middle['kernel']:.1f} µs", f"{middle['sampling']:.2%}", f"{middle['own']:.2%}",
                f"{middle['together']:.2%} ({min(run['together'] for run in runs):.2%} to {max(run['together'] for run in runs):.2%})", f"≤ {GOAL:.0%}",
                bench.verdict(middle["together"], GOAL), f"{middle['memory'] / 1e6:.0f} MB", f"{middle['disk'] / 1e6:.0f} MB",
                "" if middle["whole"] is None else f"{middle['whole']:.1%}", sum(run["dropped"] for run in runs),
            )


if __name__ == "__main__":
    main()
