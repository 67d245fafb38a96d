"""process.py VITALFEW: the CPU time of the profiler's own process, on two CPUs at 5 kHz."""

import contextlib
import resource
import subprocess
import time

import bench

GOAL = 0.003  # of one CPU
SETTLE = 3
STEADY = max(5, bench.SECONDS / 3)


def cpu_time(pid):
    """Seconds of all threads, dead ones included: the process's CPU clock (see clock_getcpuclockid),
    as /proc/PID/stat counts in hundredths."""
    return time.clock_gettime((~pid << 3) | 2)


def measure(command, load):
    """CPU time for starting, share of a CPU while it runs, and CPU time for stopping and saving."""
    loads = [bench.start(*words) for words in load]
    profiler = bench.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.samples_taken(profiler)
    time.sleep(SETTLE)
    begin, before = time.monotonic(), cpu_time(profiler.pid)
    time.sleep(STEADY)
    elapsed, after = time.monotonic() - begin, cpu_time(profiler.pid)
    with contextlib.suppress(ProcessLookupError):
        memory = next(
            int(line.split()[1]) >> 10
            for line in open(f"/proc/{profiler.pid}/status")
            if line.startswith("VmHWM")
        )
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    bench.stop(profiler)
    total = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = total.ru_utime + total.ru_stime - ended.ru_utime - ended.ru_stime
    for process in loads:
        bench.end(process)
    share = (after - before) / elapsed
    return before, share, whole - after, memory


def main():
    spin = [["sh", "-c", "while :; do :; done"]] * len(bench.CPUS)
    project = bench.make_c_project(bench.TEMPORARY / "project")
    compiling = [bench.compile_for(project, SETTLE + STEADY + 60)]
    data = bench.TEMPORARY / "process.data"
    bench.title(f"CPU time of the profiler's process, {bench.HERTZ} Hz on {len(bench.CPUS)} CPUs, {STEADY:.0f} s")
    bench.head("process", "load", "steady", "goal", "", "start", "stop and save", "memory", "perf's share / ours")
    for options, name in (([], ""), (["-g"], " -g")):
        for load_name, load in (("spin", spin), ("compile", compiling)):
            figures = {
                "vitalfew": measure(bench.vitalfew_record("-a", "-o", data, *options), load),
            }
            data.unlink(missing_ok=True)
            figures["perf record"] = measure(bench.perf_record("-q", "-a", "-o", data, *options), load)
            data.unlink(missing_ok=True)
            for program, (first, share, last, memory) in figures.items():
                ours = program == "vitalfew"
                bench.row(
                    program + name,
                    load_name,
                    f"{share:.2%}",
                    f"≤ {GOAL:.1%}" if ours else "",
                    bench.verdict(share, GOAL) if ours else "",
                    f"{first:.2f} s",
                    f"{last:.2f} s",
                    f"{memory} MiB",
                    bench.ratio(figures["perf record"][1], share) if ours else "",
                )


if __name__ == "__main__":
    main()
