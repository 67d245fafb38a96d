"""What the benchmarks share: a temporary directory, processes that end with us, figures in a row."""

import atexit
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
HERTZ = 5000
CPUS = sorted(os.sched_getaffinity(0))
SECONDS = float(os.environ.get("BENCH_SECONDS", "60"))
VITALFEW = str(pathlib.Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else "vitalfew"
TEMPORARY = pathlib.Path(tempfile.mkdtemp(prefix="vitalfew-bench-"))
os.environ["VITALFEW_DB"] = str(TEMPORARY / "db")
BPF_STATISTICS = pathlib.Path("/proc/sys/kernel/bpf_stats_enabled")
# With debug information, by the endings of sources.
COMPILERS = {
    ".c": ["cc", "-O2", "-g", "-pthread", "-fopenmp"],
    ".cpp": ["c++", "-std=c++20", "-O2", "-g", "-pthread"],
    ".rs": ["rustc", "--edition", "2021", "-O", "-g"],
    ".go": ["go", "build"],
}
_running = []


def _clean_up():
    for process in _running:
        end(process, signal.SIGKILL)
    shutil.rmtree(TEMPORARY, ignore_errors=True)


atexit.register(_clean_up)
signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def start(*command, priority=None, **options):
    """Starts a command in a process group of its own; it ends with us at the latest."""
    words = [str(word) for word in command]
    if priority and can_be_real_time():
        words = ["chrt", "-f", str(priority)] + words
    process = subprocess.Popen(words, start_new_session=True, **options)
    _running.append(process)
    return process


def end(process, with_signal=signal.SIGTERM, seconds=30):
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, with_signal)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def stop(process):
    """Asks a profiler to stop and save, as Ctrl-C does."""
    if process.poll() is None:
        os.kill(process.pid, signal.SIGINT)
        # A second signal would end it before it has saved: a daemon's collector would go on counting.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(60)
    end(process)


def measured(*command, patience=300, **environment):
    """CPU seconds, wall seconds and peak memory (of the largest process) of a command; None if it takes too
    long."""
    begin = time.monotonic()
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = start(*command, **silent, env=os.environ | environment)
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        if time.monotonic() - begin > patience:
            end(process)
            return None
        time.sleep(0.002)
    if process.returncode:
        sys.exit(f"bench: {command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime, time.monotonic() - begin, usage.ru_maxrss * 1024


def can_be_real_time():
    return os.geteuid() == 0 and not os.environ.get("BENCH_NO_REAL_TIME")


def compiled(name, *flags):
    """A program of this directory."""
    program = TEMPORARY / name
    subprocess.run(["cc", "-O2", *flags, "-o", program, HERE / f"{name}.c"], check=True)
    return program


def vitalfew_record(*arguments):
    if "-g" not in arguments:
        arguments = ("--no-stacks", *arguments)
    return [VITALFEW, "record", "-q", "-e", "cpu-clock", "-F", HERTZ, *arguments]


def perf_record(*arguments):
    return ["perf", "record", "-e", "cpu-clock", "-F", HERTZ, *arguments]


def samples_taken(process):
    """Waits until a profiler of the whole machine has opened its events (it has mapped or
    attached them by then, as it keeps descriptors of perf events and has stopped making more)."""
    before, deadline = -1, time.monotonic() + 20
    while time.monotonic() < deadline and process.poll() is None:
        time.sleep(0.5)
        links = []
        for entry in os.scandir(f"/proc/{process.pid}/fd"):
            with contextlib.suppress(OSError):
                links.append(os.readlink(entry.path))
        events = links.count("anon_inode:[perf_event]")
        if events and events == before:
            return
        before = events
    sys.exit(f"bench: {process.args} did not start to sample")


def title(text):
    print(f"\n## {text}\n", flush=True)


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def head(*cells):
    row(*cells)
    row(*("---" for _ in cells))


def verdict(value, goal):
    return "met" if value <= goal else f"**missed** ({value / goal:.2g} times the goal)"


def ratio(ours, theirs):
    return f"{ours / theirs:.2g}" if theirs and theirs > 0 else "-"


@contextlib.contextmanager
def bpf_statistics():
    before = BPF_STATISTICS.read_text()
    BPF_STATISTICS.write_text("1")
    try:
        yield
    finally:
        BPF_STATISTICS.write_text(before)


def bpf_runs(pid):
    """Time and runs of the process's busiest perf_event program."""
    best = (0, 0)
    for path in pathlib.Path(f"/proc/{pid}/fdinfo").iterdir():
        with contextlib.suppress(OSError):
            fields = dict(line.split(":", 1) for line in path.read_text().splitlines() if ":" in line)
            if fields.get("prog_type", "").strip() == "7":  # BPF_PROG_TYPE_PERF_EVENT
                best = max(best, (int(fields["run_cnt"]), int(fields["run_time_ns"])))
    return best


def make_c_project(directory, files=300):
    """A compile of many small files: `make` in the directory."""
    directory.mkdir()
    for i in range(files):
        functions = "".join(
            f"""
static long part_{i}_{j}(long *values, long n)
{{
	long sum = {j};
	for (long k = 0; k < n; k++)
		sum = sum * {j + 3} + values[k] % (k + {i + 1});
	return sum ^ (sum >> {j + 1});
}}"""
            for j in range(6)
        )
        calls = " + ".join(f"part_{i}_{j}(values, n)" for j in range(6))
        (directory / f"file{i}.c").write_text(
            "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n"
            f"{functions}\n\nlong file_{i}(long *values, long n)\n{{\n\treturn {calls};\n}}\n"
        )
    objects = " ".join(f"file{i}.o" for i in range(files))
    (directory / "Makefile").write_text(
        f"all: {objects}\n%.o: %.c\n\tcc -O2 -c -o $@ $<\n.PHONY: all\n"
    )
    return directory


def compile_for(directory, seconds):
    """A shell command that compiles again and again for some seconds, all in one process group."""
    script = (
        f"end=$(($(date +%s) + {max(1, round(seconds))})); "
        f"while [ $(date +%s) -lt $end ]; do timeout --foreground $((end - $(date +%s) + 1)) "
        f"make -s -B -j{len(CPUS)} -C {directory} >/dev/null 2>&1; done; true"
    )
    return ["sh", "-c", script]
