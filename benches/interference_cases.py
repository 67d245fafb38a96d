"""interference_cases.py VITALFEW: programs whose interference is known, and programs without any.

For each: is the loss that `interference run` finds with its default options what the repair gains (within 5 points, or inside the
interval), is the function that loses the time first, and its cause right? The truth is 1 - repaired / slow, medians of five runs by
turns. `tuned` cases are those that the method was tuned on, `held` those that were written afterwards. INTERFERENCE_CASES names some of
them or a half, with semicolons between; INTERFERENCE_TRACES keeps traces and truths in a directory, and judges those that are there.
INTERFERENCE_PREFERRED=1 gives the cases nearly all CPU time beside whatever else runs on the machine (as root).
"""

import contextlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

import bench
from bench import VITALFEW

PROGRAMS = bench.HERE.parent / "tests/programs/interference/cases"
BUILT = bench.TEMPORARY
RUNTIME = os.environ.get("INTERFERENCE_RUNTIME")
CRATES = pathlib.Path(os.environ.get("INTERFERENCE_CRATES", BUILT / "crates"))
KEPT = pathlib.Path(os.environ.get("INTERFERENCE_TRACES", BUILT))
PREFERRED = os.environ.get("INTERFERENCE_PREFERRED") == "1"
TUNED, HELD = "tuned", "held"
ROUNDS, POINTS = 5, 0.05
# Part of the threads' time that a limit or other programs must have had where they are the cause.
MACHINE = 0.1


class Case:
    """A program, what may be named as the function that loses the time, and the cause; `around`: the machine is the cause."""

    def __init__(self, half, name, command, functions=(), cause=None, around=None):
        self.half, self.name, self.command, self.functions = half, name, command, functions
        self.cause, self.around = cause, around

    def words(self, repaired=False):
        first, *rest = self.command
        built = BUILT / str(first)
        return [str(built if built.exists() else first), *map(str, rest), *(["repaired"] if repaired else [])]

    def file(self, ending):
        return KEPT / f"{self.half}-{self.name.replace(' ', '-').replace(',', '')}{ending}"


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


C, RUST, PYTHON = "tuned", "tuned_rs", [sys.executable, PROGRAMS / "tuned_gil.py"]
H, HELD_RUST = "held", "held_rs"
CASES = [
    Case(TUNED, "semaphore", [C, "semaphore"], ["sem_wait", "work_behind_gate"], "lock"),
    Case(TUNED, "mutex", [C, "mutex"], ["pthread_mutex_lock", "update_table"], "lock"),
    Case(TUNED, "gil", PYTHON, ["pthread_cond_timedwait"], "lock"),
    Case(TUNED, "rust mutex", [RUST], ["lock_contended", "add_entry"], "lock"),
    Case(TUNED, "parking_lot", ["tuned_parking"], ["lock_slow", "add_entry"], "lock"),
    Case(TUNED, "tokio semaphore", ["tuned_tokio"], ["park", "Condvar", "handle_request"], "lock"),
    Case(TUNED, "libgomp barrier", ["tuned_openmp"], ["GOMP_barrier"], "barrier"),
    Case(TUNED, "sched_yield", [C, "yield"], ["sched_yield", "take_turn"], "lock"),
    Case(TUNED, "malloc arena", [C, "arena"], ["malloc", "free", "churn"], "allocator"),
    Case(TUNED, "mmap_lock", [C, "mappings"], ["mmap", "munmap", "map_once"], "address_space"),
    Case(TUNED, "sharing, barrier", [C, "sharing"], ["count_up"], "shared_line"),
    Case(TUNED, "throttled", [C, "steps"], around=limited),
    Case(TUNED, "other process", [C, "steps"], around=beside),
    Case(HELD, "rwlock", [H, "rwlock"], ["pthread_rwlock_wrlock", "rewrite"], "lock"),
    Case(HELD, "rust map", [HELD_RUST, "map"], ["lock_contended", "count_words"], "lock"),
    Case(HELD, "parking RwLock", ["held_parking"], ["_slow", "replace", "sum_up"], "lock"),
    Case(HELD, "tokio Mutex", ["held_tokio"], ["park", "Condvar", "update_session"], "lock"),
    Case(HELD, "libgomp loop", ["held_openmp"], ["GOMP_barrier", "GOMP_loop_end", "gomp_team_barrier", "main"], "barrier"),
    Case(HELD, "spin, then yield", [H, "queue"], ["take_lock", "push_item", "sched_yield"], "lock"),
    Case(HELD, "realloc arena", [H, "strings"], ["realloc", "free", "join_words"], "allocator"),
    Case(HELD, "madvise", [H, "discard"], ["madvise", "use_buffer"], "address_space"),
    Case(HELD, "sharing, phases", [H, "histogram"], ["count_word"], "shared_line"),
    Case(HELD, "throttled crunch", [H, "crunch"], around=limited),
    Case(HELD, "beside a hog", [H, "crunch"], around=beside),
]
WITHOUT = {
    TUNED: [[C, kind] for kind in ("steps", "varied", "single", "data", "maintenance", "helpers", "sleeper", "requests")],
    HELD: [*([H, kind] for kind in ("crunch", "texts", "recursion", "own", "logger", "polled", "file", "ticker")), [HELD_RUST, "idle"]],
}
CLEAN = [Case(half, command[1], command) for half, commands in WITHOUT.items() for command in commands]
CLEAN += [Case(case.half, f"{case.name}, repaired", [*case.command, "repaired"]) for case in CASES if not case.around]


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


def gain(case):
    """What the repair gains, as part of the slow time."""
    file = case.file(".truth")
    if not file.exists():
        seconds = lambda repaired: bench.measured(*case.words(repaired))[1]
        slow, fast = zip(*((seconds(False), seconds(True)) for _ in range(ROUNDS)))
        file.write_text(str(1 - statistics.median(fast) / statistics.median(slow)))
    return float(file.read_text())


def traced(case):
    trace = case.file(".trace")
    if not trace.exists():
        runtime = ["--runtime", RUNTIME] if RUNTIME else []
        with (case.around or (lambda _: contextlib.nullcontext()))(BUILT / str(case.command[0])) as enter:
            subprocess.run([VITALFEW, "interference", "run", "-q", *runtime, "-o", trace, "--", *case.words()],
                           check=True, stdout=subprocess.DEVNULL, preexec_fn=enter)
    output = subprocess.run([VITALFEW, "interference", "report", "--json", "--all", trace], capture_output=True, text=True)
    return json.loads(output.stdout)


def claimed(result):
    return [f for f in result["functions"] if f["loss"] and f["loss"]["is_claimed"]]


def first_place(result):
    """The function that is named first, and its cause: of dependence, the one with the longest wait for other threads."""
    contention = result["contention"]
    said = [(f["loss"]["loss"]["estimate"], f["name"], f["cause"]) for f in claimed(result)]
    if contention and contention["is_claimed"]:
        said = [row for row in said if row[2] != contention["cause"]]
        said.append((contention["loss"]["estimate"], contention["function"], contention["cause"]))
    if said:
        return max(said)[1:]
    if result["solo"]["verdict"] == "dependence":
        waits = [(w["ns"], f["name"], w["kind"]) for f in result["functions"] for w in f["waits"] if w["ended_by"]]
        return max(waits, default=(0, "nothing", None))[1:]
    return "nothing", None


def judge(case, result, truth):
    """Whether loss and function are right; of the cause "right", "not known" or "wrong"; and what was said."""
    program = result["solo"]["program"]
    loss = program["loss"] if program else None
    close = loss is not None and (abs(loss["estimate"] - truth) <= POINTS or loss["low"] <= truth <= loss["high"])
    name, cause = first_place(result)
    if case.around:  # What the machine did is no loss by threads.
        part = (result["machine"]["taken_ns"] + result["machine"]["throttled_ns"]) / result["thread_time_ns"]
        silent = not claimed(result)
        return silent, silent, "right" if part >= MACHINE else "not known", name, f"machine {part:.2f}"
    # Silence is right where the repair gains nothing.
    right = any(function in name for function in case.functions) or name == "nothing" and truth <= POINTS
    known = "not known" if cause is None else "right" if right and cause == case.cause else "wrong"
    return close, right, known, name, cause


def shown_loss(result):
    program = result["solo"]["program"]
    if not program:
        return result["solo"]["verdict"]
    loss, said = program["loss"], "claimed" if program["is_claimed"] else result["solo"]["verdict"]
    return f"{loss['estimate']:.2f} [{loss['low']:.2f}, {loss['high']:.2f}] {said}"


def main():
    asked = os.environ.get("INTERFERENCE_CASES", "").split(";")
    chosen = lambda case: asked == [""] or case.half in asked or case.name in asked
    cases, clean = [c for c in CASES if chosen(c)], [c for c in CLEAN if chosen(c)]
    build(cases + clean)
    for half in (TUNED, HELD):
        rows = []
        for case in (case for case in cases if case.half == half):
            truth = 0 if case.around else gain(case)
            result = traced(case)
            rows.append(judge(case, result, truth))
            close, right, known, name, cause = rows[-1]
            print(f"  {case.name:18} truth {truth:5.2f}, loss {'yes' if close else 'NO':3} {shown_loss(result):32} "
                  f"function {'yes' if right else 'NO':3} cause {known:9} {cause or '':14} {name[-60:]}", flush=True)
        if rows:
            count = lambda at, value=True: sum(row[at] == value for row in rows)
            bench.title(f"Interfered, {half}, {len(rows)}: loss right {count(0)}, function right {count(1)}, "
                        f"cause right {count(2, 'right')}, wrong {count(2, 'wrong')}")
        alarms = []
        for case in (case for case in clean if case.half == half):
            result = traced(case)
            program = result["solo"]["program"]
            alarms.append(bool(claimed(result) or program and program["is_claimed"]))
            print(f"  {case.name:28} {'ALARM' if alarms[-1] else 'none':5} {shown_loss(result):32} {first_place(result)[0][-60:]}", flush=True)
        if alarms:
            bench.title(f"Without interference, {half}: {sum(alarms)} false alarms of {len(alarms)}")


with control_group("preferred") if PREFERRED else contextlib.nullcontext() as prefer:
    if prefer:
        prefer()
    main()
