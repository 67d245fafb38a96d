"""interference_cases.py VITALFEW: programs whose interference is known, and programs without any.

For each: does `interference run` with its default options put the function first that loses the time, with the cause, and is what it
says to be lost what the repair gains? `tuned` are those that scores and causes were tuned on, `held` those that were written
afterwards. INTERFERENCE_CASES names some of them or a half, with semicolons between, INTERFERENCE_TRACES keeps the traces in a directory.
INTERFERENCE_PREFERRED=1 gives the cases nearly all CPU time beside whatever else runs on the machine (as root).
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time

import bench
from bench import VITALFEW

PROGRAMS = bench.HERE.parent / "tests/programs/interference/cases"
BUILT = bench.TEMPORARY
RUNTIME = os.environ.get("INTERFERENCE_RUNTIME")
CRATES = pathlib.Path(os.environ.get("INTERFERENCE_CRATES", BUILT / "crates"))
TRACES = pathlib.Path(os.environ.get("INTERFERENCE_TRACES", BUILT))
PREFERRED = os.environ.get("INTERFERENCE_PREFERRED") == "1"
TUNED, HELD = "tuned", "held"


class Case:
    def __init__(self, half, name, command, functions=(), causes=(), words=(), repaired=("repaired",), around=None):
        self.half, self.name, self.command, self.functions = half, name, command, functions
        self.causes, self.words, self.repaired, self.around = causes, words, repaired, around


@contextlib.contextmanager
def control_group(name, one_cpu=False):
    """A control group, which may use one CPU or all; gives what has to be done in the child."""
    version_2 = pathlib.Path("/sys/fs/cgroup/cgroup.controllers").exists()
    root = pathlib.Path("/sys/fs/cgroup" if version_2 else "/sys/fs/cgroup/cpu")
    group = root / f"vitalfew-{name}-{os.getpid()}"
    group.mkdir()
    try:
        if one_cpu:
            (group / ("cpu.max" if version_2 else "cpu.cfs_quota_us")).write_text("100000 100000" if version_2 else "100000")
        if PREFERRED:
            (group / ("cpu.weight" if version_2 else "cpu.shares")).write_text("10000" if version_2 else "262144")
        yield lambda: (group / "cgroup.procs").write_text(str(os.getpid()))
    finally:
        for process in (group / "cgroup.procs").read_text().split():
            (root / "cgroup.procs").write_text(process)
        group.rmdir()


def limited(_):
    return control_group("limited", one_cpu=True)


@contextlib.contextmanager
def beside(program):
    """Other processes that compute all the time."""
    others = [bench.start(program, "hog") for _ in bench.CPUS]
    try:
        yield None
    finally:
        for other in others:
            bench.end(other, seconds=5)


C, RUST, LOCK = "tuned", "tuned_rs", ["lock"]
H, HELD_RUST = "held", "held_rs"
CASES = [
    Case(TUNED, "semaphore", [C, "semaphore"], ["sem_wait", "work_behind_gate"], LOCK, ["semaphore"]),
    Case(TUNED, "mutex", [C, "mutex"], ["pthread_mutex_lock", "update_table"], LOCK),
    Case(TUNED, "gil", [sys.executable, PROGRAMS / "tuned_gil.py"], ["pthread_cond_timedwait"], LOCK, ["interpreter lock"]),
    Case(TUNED, "rust mutex", [RUST], ["lock_contended", "add_entry"], LOCK, ["std::sync::Mutex"]),
    Case(TUNED, "parking_lot", ["tuned_parking"], ["lock_slow", "add_entry"], LOCK, ["parking_lot"]),
    Case(TUNED, "tokio semaphore", ["tuned_tokio"], ["park", "Condvar", "handle_request"], LOCK, ["semaphore"]),
    Case(TUNED, "libgomp barrier", ["tuned_openmp"], ["GOMP_barrier"], ["barrier"]),
    Case(TUNED, "sched_yield", [C, "yield"], ["sched_yield", "take_turn"], LOCK, ["yield"]),
    Case(TUNED, "malloc arena", [C, "arena"], ["malloc", "free", "churn"], ["allocator"]),
    Case(TUNED, "mmap_lock", [C, "mappings"], ["mmap", "munmap", "map_once"], ["address_space"]),
    Case(TUNED, "sharing, barrier", [C, "sharing"], ["count_up"], ["memory"]),
    Case(TUNED, "throttled", [C, "steps"], ["step", "compute"], ["throttle"], (), (), limited),
    Case(TUNED, "other process", [C, "steps"], ["step", "compute"], ["other_processes"], ["tuned"], (), beside),
    Case(HELD, "rwlock", [H, "rwlock"], ["pthread_rwlock_wrlock", "rewrite"], LOCK),
    Case(HELD, "rust map", [HELD_RUST, "map"], ["lock_contended", "count_words"], LOCK, ["std::sync::Mutex"]),
    Case(HELD, "parking RwLock", ["held_parking"], ["_slow", "replace", "sum_up"], LOCK, ["parking_lot"]),
    Case(HELD, "tokio Mutex", ["held_tokio"], ["park", "Condvar", "update_session"], LOCK, ["semaphore"]),
    Case(HELD, "libgomp loop", ["held_openmp"], ["GOMP_barrier", "GOMP_loop_end", "gomp_team_barrier", "main"], ["barrier"]),
    Case(HELD, "spin, then yield", [H, "queue"], ["take_lock", "push_item", "sched_yield"], LOCK, ["yield"]),
    Case(HELD, "realloc arena", [H, "strings"], ["realloc", "free", "join_words"], ["allocator"]),
    Case(HELD, "madvise", [H, "discard"], ["madvise", "use_buffer"], ["address_space"]),
    Case(HELD, "sharing, phases", [H, "histogram"], ["count_word"], ["memory"]),
    Case(HELD, "throttled crunch", [H, "crunch"], ["encode_block", "digest"], ["throttle"], (), (), limited),
    Case(HELD, "beside a hog", [H, "crunch"], ["encode_block", "digest"], ["other_processes"], ["held"], (), beside),
]
CLEAN = [
    Case(TUNED, "uniform", [C, "steps"]),
    Case(TUNED, "varied", [C, "varied"]),
    Case(TUNED, "single", [C, "single"]),
    Case(TUNED, "data", [C, "data"]),
    Case(TUNED, "maintenance", [C, "maintenance"]),
    Case(TUNED, "helpers", [C, "helpers"]),
    Case(TUNED, "sleeper", [C, "sleeper"]),
    Case(TUNED, "requests", [C, "requests"]),
    Case(TUNED, "semaphore, repaired", [C, "semaphore", "repaired"]),
    Case(TUNED, "rust mutex, repaired", [RUST, "repaired"]),
    Case(TUNED, "python processes", [sys.executable, PROGRAMS / "tuned_gil.py", "repaired"]),
    Case(TUNED, "libgomp, repaired", ["tuned_openmp", "repaired"]),
    Case(HELD, "crunch", [H, "crunch"]),
    Case(HELD, "texts", [H, "texts"]),
    Case(HELD, "recursion", [H, "recursion"]),
    Case(HELD, "own locks", [H, "own"]),
    Case(HELD, "logger", [H, "logger"]),
    Case(HELD, "polled pipe", [H, "polled"]),
    Case(HELD, "file", [H, "file"]),
    Case(HELD, "ticker", [H, "ticker"]),
    Case(HELD, "idle workers", [HELD_RUST, "idle"]),
    Case(HELD, "rust map, repaired", [HELD_RUST, "map", "repaired"]),
    Case(HELD, "parking, repaired", ["held_parking", "repaired"]),
    Case(HELD, "libgomp loop, dynamic", ["held_openmp", "repaired"]),
]


def build(cases):
    words = {str(case.command[0]) for case in cases}
    flags = ["-O2", "-g", "-pthread"]
    for word in words:
        source = PROGRAMS / word
        for end, compiler in ((".c", ["cc"]), (".cpp", ["c++", "-std=c++20"])):
            if source.with_suffix(end).exists():
                openmp = ["-fopenmp"] if "openmp" in word else []
                subprocess.run([*compiler, *flags, *openmp, source.with_suffix(end), "-o", BUILT / word], check=True)
        if word.endswith("_rs"):
            subprocess.run(["rustc", "-O", "-g", PROGRAMS / f"{word[:-3]}.rs", "-o", BUILT / word], check=True)
        elif (PROGRAMS / f"crates/src/bin/{word}.rs").exists():
            program = CRATES / "release" / word
            if not program.exists():
                subprocess.run(["cargo", "build", "-q", "--release", "--manifest-path", PROGRAMS / "crates/Cargo.toml",
                                "--target-dir", CRATES], check=True)
            (BUILT / word).symlink_to(program)


def words_of(case, repaired):
    first, *rest = case.command
    built = BUILT / str(first)
    return [str(built if built.exists() else first), *map(str, rest), *(case.repaired if repaired else ())]


def seconds(command, enter=None):
    """The least of three."""
    def once():
        before = time.monotonic()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
        return time.monotonic() - before
    return min(once() for _ in range(3))


def traced(case, enter):
    trace = TRACES / f"{case.half}-{case.name.replace(' ', '-').replace(',', '')}.trace"
    if not trace.exists():
        runtime = ["--runtime", RUNTIME] if RUNTIME else []
        subprocess.run([VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, "--", *words_of(case, False)],
                       check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
    output = subprocess.run([VITALFEW, "interference", "report", "--json", "--all", trace], capture_output=True, text=True)
    return json.loads(output.stdout or "null") or {"findings": []}


def alarms(result):
    """Findings that are called interference and worth a look."""
    return [f for f in result["findings"]
            if f["standing"] == "interference" and min(f["hindered"], f["sci"]["high"]) >= 0.1
            or f["standing"] == "for_work" and f["sci"]["high"] >= 0.1]


def by_machine(result):
    """Findings that other processes or a limit are the reason of."""
    return [f for f in result["findings"] if f["standing"] == "machine" and f["machine"] >= 0.1]


def judge(case, result):
    found = alarms(result)
    # What the machine did is no interference of the program's threads: nothing may be called that.
    if case.around and not found:
        found = by_machine(result)
    first = found[0] if found else None
    name = first["name"] if first else "nothing"
    cause = first["causes"][0] if first and first["causes"] else {"kind": "none", "evidence": []}
    evidence = " ".join(cause["evidence"])
    right = first is not None and any(function in name for function in case.functions)
    caused = right and cause["kind"] in case.causes and all(word in evidence for word in case.words)
    return right, caused, name, cause["kind"], first["sci"]["estimate"] if first else 0.0


def main():
    asked = os.environ.get("INTERFERENCE_CASES", "").split(";")
    chosen = lambda case: asked == [""] or case.half in asked or case.name in asked
    cases, clean = [c for c in CASES if chosen(c)], [c for c in CLEAN if chosen(c)]
    build(cases + clean)
    rows = []
    for case in cases:
        around = case.around or (lambda _: contextlib.nullcontext())
        with around(BUILT / str(case.command[0])) as enter:
            result = traced(case, enter)
            slow = seconds(words_of(case, False), enter)
        fast = seconds(words_of(case, True))
        rows.append((case, *judge(case, result), (slow - fast) / slow))
    for half in (TUNED, HELD):
        own = [row for row in rows if row[0].half == half]
        if own:
            bench.title(f"Interfered, {half}: function right {sum(r[1] for r in own)}, cause right {sum(r[2] for r in own)} of {len(own)}")
        for case, right, caused, name, cause, sci, gain in own:
            marks = f"{'yes' if right else 'NO':4} {'yes' if caused else 'NO':4}"
            print(f"  {case.name:18} {marks} SCI {sci:.2f}, the repair gains {gain:.2f}  {cause:14} {name[-60:]}", flush=True)
    for half in (TUNED, HELD):
        own = [case for case in clean if case.half == half]
        said = [(case, alarms(traced(case, None))) for case in own]
        if own:
            bench.title(f"Without interference, {half}: {sum(bool(a) for _, a in said)} false alarms of {len(own)}")
        for case, found in said:
            names = [f"{f['name']} {f['sci']['estimate']:.2f} {f['causes'][0]['kind'] if f['causes'] else ''}" for f in found]
            print(f"  {case.name:22} {'; '.join(names) or 'none'}", flush=True)


with control_group("preferred") if PREFERRED else contextlib.nullcontext() as prefer:
    if prefer:
        prefer()
    main()
