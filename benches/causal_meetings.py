"""causal_meetings.py VITALFEW [HALF...] [KIND...]: threads that meet every 5, 1 and 0.25 ms, predicted against true.

The programs of `tests/programs/causal/meetings.c` (HALF `tuned`: the method was tuned on them) and `encounters.c`
(`held_out`: written after that, before anybody saw what is predicted for them). The truth follows from the lengths of the pieces, or it is
measured: the program with its line's work 25, 50 and 75 % less, each between two runs as it is. The prediction is a `causal run` of
the program as it is for each of 25, 50 and 75 %, all lines at once. The third, `languages`, are the programs of `standard.cpp` and
`standard.rs` (written later still), the fourth, `crowds`, those of `crowds.c` (more threads than processors, written when that had been tuned on the third); their
prediction is one run as a user types it.
Figures for each half: the mean error, how many truths are inside the interval (their own error allowed for), how many predictions are missing, whether
the line worth most is first, and how many lines worth nothing (less than a point at all speedups) are called worth it.

CAUSAL_SECONDS (12): of a prediction, all three runs together. CAUSAL_REAL_TIME: real-time priority, for a machine that is not quiet (a lower one for what is measured than
for what measures). CAUSAL_TRUTH (0.3), CAUSAL_REPEATS (3): of a truth. CAUSAL_CACHE, CAUSAL_KEEP, CAUSAL_HOG as in causal.py (beside a hog no truth follows from lengths);
`truth` among the names: only that; `kept`: only what is kept. CAUSAL_MICROSECONDS (5000,1000,250): the lengths of a piece.
"""

import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

import bench
import causal

SECONDS = float(os.environ.get("CAUSAL_SECONDS", "12"))
TRUTH = float(os.environ.get("CAUSAL_TRUTH", "0.3"))
REPEATS = int(os.environ.get("CAUSAL_REPEATS", "3"))
causal.PROGRAMS |= {"meetings": causal.C, "openmp": causal.C + ["-fopenmp"], "encounters": causal.C, "crowds": causal.C}
causal.PROGRAMS |= {"standard.cpp": causal.PROGRAMS["atomic_wait.cpp"], "standard.rs": causal.PROGRAMS["pipeline.rs"]}
EXPERIMENT = os.environ.get("CAUSAL_EXPERIMENT", "200ms")
MICROSECONDS = [int(it) for it in os.environ.get("CAUSAL_MICROSECONDS", "5000,1000,250").split(",")]
PERCENTS = [25, 50, 75]
REAL_TIME = "CAUSAL_REAL_TIME" in os.environ
PIPES = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
# Their threads share processors: at real-time priority they would not take turns.
SHARED = ["unequal", "stages"]
# Halves whose prediction is one run as a user types it.
AS_TYPED = ["languages", "crowds"]
# For each half and kind, the program and its lines.
HALVES = {
    "tuned": {
        "barrier": ("meetings", ["long", "short"]),
        "spin": ("meetings", ["long_spinning", "short_spinning"]),
        "lock": ("meetings", ["inside", "outside"]),
        "rwlock": ("meetings", ["reading", "between", "writing", "around"]),
        "queue": ("meetings", ["producer", "consumer"]),
        "unequal": ("meetings", ["first", "second", "alone"]),
        "openmp": ("openmp", ["parallel", "serial"]),
    },
    "held_out": {
        "pipes": ("encounters", ["parent", "child"]),
        "spinlock": ("encounters", ["spin_inside", "spin_outside"]),
        "semaphores": ("encounters", ["ping", "pong"]),
        "pool": ("encounters", ["task", "making", "merging"]),
        "stages": ("encounters", ["first_stage", "second_stage", "third_stage"]),
    },
    "languages": {
        "async": ("standard.cpp", ["left_half", "right_half", "joining"]),
        "condition": ("standard.cpp", ["filling", "emptying"]),
        "shared": ("standard.cpp", ["looking", "using", "preparing", "changing"]),
        "permits": ("standard.cpp", ["packing", "sending"]),
        "phases": ("standard.cpp", ["slow", "between", "fast"]),
        "guarded": ("standard.cpp", ["section_one", "unguarded", "section_two"]),
        "channel": ("standard.rs", ["sending", "receiving"]),
        "many_senders": ("standard.rs", ["making", "collecting"]),
        "scope": ("standard.rs", ["left", "right", "merging"]),
        "parking": ("standard.rs", ["serve", "answer"]),
        "read_write": ("standard.rs", ["reading", "thinking", "writing", "resting"]),
        "meeting": ("standard.rs", ["longer", "shorter"]),
    },
    "crowds": {
        "ring": ("crowds", ["passes_long", "passes_short"]),
        "farm": ("crowds", ["feeding", "doing"]),
        "tables": ("crowds", ["in_table", "off_table"]),
        "checkpoint": ("crowds", ["most_of_it", "some_of_it", "least_of_it"]),
    },
}


def by_analysis(kind, line, percent):
    """The true program speedup where it follows from the lengths of the pieces; None where it does not."""
    if causal.HOG:
        return None

    def left(name, length):
        return length * (100 - percent) / 100 if name == line else length

    if kind in ("barrier", "spin"):
        of = "_spinning" if kind == "spin" else ""
        period = max(left("long" + of, 1), left("short" + of, 0.69))
        return 1 - period
    if kind == "queue":
        return 1 - max(left("consumer", 1), left("producer", 0.7))
    if kind == "lock":
        inside, outside = left("inside", 0.6), left("outside", 0.35)
        return 1 - max(2 * inside, inside + outside) / 1.2
    if kind == "spinlock":
        inside, outside = left("spin_inside", 0.5), left("spin_outside", 0.8)
        return 1 - max(2 * inside, inside + outside) / 1.3
    if kind == "pipes":
        return 1 - max(left("parent", 1), left("child", 0.6))
    if kind == "semaphores":
        return 1 - left("ping", 0.4) - left("pong", 0.6)
    if kind == "pool":
        return 1 - (left("making", 0.2) + 2 * left("task", 0.5) + left("merging", 0.3)) / 1.5
    if kind == "openmp":
        return 1 - left("parallel", 0.7) - left("serial", 0.3)
    if kind == "unequal":
        return 1 - max(left("first", 6.7) + left("second", 2), left("alone", 6.4)) / 8.7
    return None


class Case:
    def __init__(self, half, kind, microseconds):
        self.source, self.lines = HALVES[half][kind]
        self.half, self.kind, self.microseconds = half, kind, microseconds
        self.name = f"{kind}, {microseconds / 1000:g} ms"

    def rate(self, program, line="none", percent=0, seconds=TRUTH, wrapper=()):
        words = [*wrapper, program, line, percent, seconds, self.kind, self.microseconds]
        real_time = REAL_TIME and self.kind not in SHARED
        if real_time and wrapper:
            process = start_below(words)
        else:
            process = bench.start(*words, priority=10 if real_time else None, **PIPES)
        output, errors = process.communicate(timeout=seconds + 60)
        if process.returncode:
            sys.exit(f"{words}: exit code {process.returncode}\n{errors}")
        return causal.period(next(l for l in output.splitlines() if l.startswith("rate")))


def start_below(words):
    """Starts `causal run` at a real-time priority above that of what it measures. The target gets its priority when it runs already: threads
    that spin at the same one would keep the measurer from its first look at them, and the time until then would count as a phase."""
    process = bench.start("chrt", "-R", "-f", "20", *words, **PIPES)
    time.sleep(0.6)
    targets = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
    for target in targets:
        subprocess.run(["chrt", "-a", "-f", "-p", "10", target], capture_output=True)
        # The first thread ends the program, also beside others that spin.
        subprocess.run(["chrt", "-f", "-p", "11", target], capture_output=True)
    return process


def kept_truths():
    path = pathlib.Path(causal.CACHE) if causal.CACHE else None
    return json.loads(path.read_text()) if path and path.exists() else {}


def truth(case, program):
    """For each line, the true program speedup at each percentage, with its standard error."""
    known = {
        line: {str(p): (by_analysis(case.kind, line, p), 0.003) for p in PERCENTS} for line in case.lines
    }
    if all(true is not None for of_line in known.values() for true, _ in of_line.values()):
        return known
    kept = kept_truths()
    if case.name in kept:
        return kept[case.name]
    # Of long pieces a run has to have as many visits as the error asks for.
    seconds = TRUTH * (2 if case.microseconds >= 5000 else 1)
    asked = [(line, percent) for line in case.lines for percent in PERCENTS]
    gains = {key: [] for key in asked}
    for _ in range(REPEATS):
        before = case.rate(program, seconds=seconds)
        for line, percent in random.sample(asked, len(asked)):
            faster = case.rate(program, line, percent, seconds)
            behind = case.rate(program, seconds=seconds)
            gains[line, percent].append(1 - 2 * faster / (before + behind))
            before = behind

    def typical(values):
        middle = statistics.median(values)
        spread = 1.4826 * statistics.median(abs(value - middle) for value in values)
        return middle, max(1.2533 * spread / len(values) ** 0.5, 0.003)

    speedups = {line: {str(p): typical(gains[line, p]) for p in PERCENTS} for line in case.lines}
    if causal.CACHE:
        pathlib.Path(causal.CACHE).write_text(json.dumps(kept | {case.name: speedups}, indent=1))
    return speedups


def predicted(case, program):
    kept = pathlib.Path(causal.KEEP) if causal.KEEP else bench.TEMPORARY
    profile = kept / f"{case.kind}-{case.microseconds}.json"
    if not (causal.KEPT and profile.exists()):
        profile.unlink(missing_ok=True)
        fixed = [["--experiment", EXPERIMENT, "--fixed-speedup", percent] for percent in PERCENTS]
        runs = [[]] if case.half in AS_TYPED else fixed
        for options in runs:
            part = profile.with_suffix(".part")
            part.unlink(missing_ok=True)
            case.rate(program, seconds=SECONDS / len(runs), wrapper=causal.wrapper(part, *options))
            if part.exists():
                with profile.open("ab") as file:
                    file.write(part.read_bytes())
    return causal.report(profile)["findings"] if profile.exists() else []


class Sums:
    def __init__(self):
        self.errors, self.inside, self.widths = [], [], []
        self.missing, self.first, self.worthless, self.wrongly_worth = 0, [], 0, []

    def print(self, name):
        if not self.errors:
            return
        print(f"{name}: mean absolute error {100 * statistics.mean(self.errors):.1f} points, truth inside "
              f"{sum(self.inside)} of {len(self.inside)} (intervals of {100 * statistics.mean(self.widths):.0f} points), "
              f"{self.missing} missing, best line first in {sum(self.first)} of {len(self.first)}, "
              f"worth it of {len(self.wrongly_worth)} of {self.worthless} worthless: {self.wrongly_worth}", flush=True)


def compare(case, lines, speedups, findings, sums):
    of_line = {}
    for line in case.lines:
        of_line[line] = causal.find(findings, lines[line])
        _, effect = of_line[line]
        row = f"{case.name:18}{line:15}"
        for at in PERCENTS:
            true, error = speedups[line][str(at)]
            row += f"{100 * true:+6.1f}"
            estimates = effect["at"] if effect else []
            found = next((e for e in estimates if abs(100 * e["speedup"] - at) < 1), None)
            if not found:
                sums.missing += 1
                row += " -                   "
                continue
            off = found["program"] - true
            side = found["high"] - found["program"] if off < 0 else found["program"] - found["low"]
            inside = abs(off) <= (side**2 + (1.96 * error) ** 2) ** 0.5
            sums.errors.append(abs(off))
            sums.inside.append(inside)
            sums.widths.append(found["high"] - found["low"])
            row += (f"{100 * found['program']:+6.1f} [{100 * found['low']:+4.0f},{100 * found['high']:+4.0f}]"
                    f"{' ' if inside else '*'}  ")
        worthless = all(true < 0.01 for true, _ in speedups[line].values())
        sums.worthless += worthless
        verdict = effect["verdict"] if effect else ""
        if worthless and verdict.startswith("worth"):
            sums.wrongly_worth.append(f"{case.name} {line}")
        print(row + verdict, flush=True)
    most = {line: max(true for true, _ in speedups[line].values()) for line in case.lines}
    best = max(most, key=most.get)
    ranks = {line: rank for line, (rank, _) in of_line.items() if rank is not None}
    first = min(ranks, key=ranks.get, default=None)
    # Lines within a point of the best are as good.
    sums.first.append(first is not None and most[first] > most[best] - 0.01)


def main():
    causal.begin_hog()
    asked = sys.argv[2:]
    halves = [half for half in HALVES if half in asked] or list(HALVES)
    built = {}
    for half in halves:
        kinds_asked = [kind for kind in HALVES[half] if kind in asked] or HALVES[half]
        sums = Sums()
        print("program           line              true, predicted [95 %] at 25, 50 and 75 %; * outside")
        for case in [Case(half, kind, us) for kind in kinds_asked for us in MICROSECONDS]:
            if case.source not in built:
                built[case.source] = causal.build(case.source)
            program, lines = built[case.source]
            speedups = truth(case, program)
            if "truth" not in asked:
                compare(case, lines, speedups, predicted(case, program), sums)
        sums.print(half)


if __name__ == "__main__":
    main()
