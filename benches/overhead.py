"""overhead.py VITALFEW: what sampling at 5 kHz costs the program that is sampled.

One CPU's sampling is switched on and off every 100 ms (toggle.c), the same loop runs on two CPUs,
and the figure is the ratio of their rates when off over that when on: noise of the machine is
common to both CPUs and drops out. Then the time in the BPF program itself, as the kernel counts it.
"""

import signal
import statistics
import subprocess
import sys
import time

import bench

WINDOW_MS = 100
ROUNDS = 3
WINDOWS = max(20, round(bench.SECONDS * 10 / 6))  # a round of 10 s in a full run
GOALS = {"flat": 1000, "stacks": 2000}


def rates(loop, kind):
    """Ratio of the rates of the sampled and the other CPU, by window."""
    outs = [bench.TEMPORARY / f"rates.{i}" for i in range(2)]
    processes = [
        bench.start(loop, cpu, kind, WINDOWS, WINDOW_MS, out, priority=5)
        for cpu, out in zip(bench.CPUS, outs)
    ]
    for process in processes:
        process.wait(WINDOWS * WINDOW_MS / 1000 + 60)
    ours, others = (
        {int(window): float(rate) for window, rate in map(str.split, out.read_text().splitlines())}
        for out in outs
    )
    return {window: ours[window] / others[window] for window in ours.keys() & others.keys()}


def slowdowns(ratios):
    """Of each odd window (on) against its two neighbours (off)."""
    return [
        (ratios[w - 1] + ratios[w + 1]) / 2 / ratio - 1
        for w, ratio in ratios.items()
        if w & 1 and w - 1 in ratios and w + 1 in ratios
    ]


def trimmed(values):
    """The mean without the tenth at either end, and its standard error."""
    values = sorted(values)
    cut = len(values) // 10
    kept = values[cut : len(values) - cut]
    if len(kept) < 5:
        sys.exit("overhead: too few windows; is the machine overloaded?")
    # The trimmed mean's error follows from the winsorised deviation.
    winsorised = [min(max(v, kept[0]), kept[-1]) for v in values]
    error = statistics.stdev(winsorised) / (0.8 * len(values) ** 0.5)
    return statistics.mean(kept), error


def toggled():
    loop = bench.compiled("loop", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls")
    toggle, empty = bench.compiled("toggle"), bench.compiled("empty")
    data = bench.TEMPORARY / "overhead.data"
    ours, perf = bench.vitalfew_record("-a", "-o", data), bench.perf_record("-q", "-a", "-o", data)
    subjects = {
        ("nothing", "arithmetic"): None,
        ("empty BPF program", "arithmetic"): [empty, bench.HERTZ],
        ("vitalfew", "arithmetic"): ours,
        ("perf record", "arithmetic"): perf,
        ("vitalfew", "memory"): ours,
        ("perf record", "memory"): perf,
        ("vitalfew -g", "deep"): [*ours, "-g"],
        ("perf record -g", "deep"): [*perf, "-g"],
    }
    found = {subject: [] for subject in subjects}
    for _ in range(ROUNDS):
        for subject, command in subjects.items():
            if not command:
                found[subject] += slowdowns(rates(loop, subject[1]))
                continue
            with contextlib.suppress(FileNotFoundError):
                data.unlink()
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            profiler = bench.start(*command, priority=6, **quiet)
            bench.samples_taken(profiler)
            switch = bench.start(toggle, profiler.pid, WINDOW_MS, priority=7, stdout=subprocess.PIPE)
            if switch.stdout.readline() != b"ready\n":
                sys.exit(f"overhead: no events of {subject[0]} to toggle")
            found[subject] += slowdowns(rates(loop, subject[1]))
            bench.end(switch)
            bench.stop(profiler)
    return {subject: (*trimmed(values), len(values)) for subject, values in found.items()}


def report_toggled(figures):
    bench.title(f"Slowdown of a loop by sampling its CPU at {bench.HERTZ} Hz, toggled every {WINDOW_MS} ms")
    bench.head("sampled by", "loop", "slowdown", "n", "ns a sample", "above the empty program", "goal", "")
    floor, floor_error, _ = figures["empty BPF program", "arithmetic"]
    for (name, kind), (mean, error, n) in figures.items():
        peer = figures.get((name.replace("vitalfew", "perf record"), kind))
        goal = note = above = ""
        each = f"{mean * 1e9 / bench.HERTZ:.0f} ± {error * 1e9 / bench.HERTZ:.0f}"
        if name.startswith(("vitalfew", "perf")) and kind != "memory":
            extra, extra_error = mean - floor, (error**2 + floor_error**2) ** 0.5
            above = f"{extra * 1e9 / bench.HERTZ:.0f} ± {extra_error * 1e9 / bench.HERTZ:.0f} ns"
        if name.startswith("vitalfew"):
            goal = "≤ perf record"
            difference, noise = mean - peer[0], (error**2 + peer[1] ** 2) ** 0.5
            if difference <= 0:
                note = "met"
            elif difference < 2 * noise:
                note = "no difference found"
            else:
                note = "**missed**"
            note += f"; {bench.ratio(mean, peer[0])} times perf's"
        bench.row(name, kind, f"{mean:+.2%} ± {error:.2%}", n, each, above, goal, note)


def in_kernel():
    loop, empty = bench.TEMPORARY / "loop", bench.TEMPORARY / "empty"
    project = bench.make_c_project(bench.TEMPORARY / "project")
    seconds = max(3, bench.SECONDS / 6)
    data = bench.TEMPORARY / "in-kernel.data"
    ours = bench.vitalfew_record("-a", "-o", data)
    bench.title("Time in the kernel's BPF program, as the kernel counts it (bpf_stats_enabled)")
    bench.head("program", "load", "runs a second and CPU", "ns a run", "above the empty program", "goal", "")
    floor = 0
    for name, command, load, goal in (
        ("empty", [empty, bench.HERTZ], "arithmetic", None),
        ("vitalfew", ours, "arithmetic", GOALS["flat"]),
        ("vitalfew -g", [*ours, "-g"], "deep", GOALS["stacks"]),
        ("vitalfew", ours, "compile", None),
        ("vitalfew -g", [*ours, "-g"], "compile", None),
    ):
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        profiler = bench.start(*command, priority=6, **quiet)
        bench.samples_taken(profiler)
        if load == "compile":
            loads = [bench.start(*bench.compile_for(project, seconds + 4))]
        else:
            loads = [
                # In the real-time class, so that nobody else's code is sampled between.
                bench.start(loop, cpu, load, 10000, WINDOW_MS, "/dev/null", priority=5)
                for cpu in bench.CPUS
            ]
        time.sleep(1)
        with bench.bpf_statistics():
            runs, spent = bench.bpf_runs(profiler.pid)
            begin = time.monotonic()
            time.sleep(seconds)
            runs_after, spent_after = bench.bpf_runs(profiler.pid)
            elapsed = time.monotonic() - begin
        for process in loads:
            bench.end(process)
        bench.end(profiler) if name == "empty" else bench.stop(profiler)
        if runs_after == runs:
            bench.row(name, load, "0", "not counted", "", "", "")
            continue
        each = (spent_after - spent) / (runs_after - runs)
        rate = (runs_after - runs) / elapsed / len(bench.CPUS)
        floor = each if name == "empty" else floor
        bench.row(
            name,
            load,
            f"{rate:.0f}",
            f"{each:.0f}",
            f"{each - floor:.0f}",
            f"≤ {goal} ns hot" if goal else "",
            bench.verdict(each - floor, goal) if goal else "",
        )


if __name__ == "__main__":
    if len(bench.CPUS) < 2:
        sys.exit("overhead: needs two CPUs")
    report_toggled(toggled())
    with contextlib.suppress(PermissionError):
        in_kernel()
