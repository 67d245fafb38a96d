"""causal.py VITALFEW [NAME...]: predicted against true program speedups.

Every program of tests/programs/causal has lines that an argument really speeds up. The truth: the program with
the line 25, 50, 75 and 100 % faster, each between two runs as it is, several times over; the median of the quotients,
with its standard error (a run during which the hypervisor took 3 % or more is repeated). The prediction: `causal run` of the program as it is, all its lines at once; Coz
beside it where it is installed (on a copy with DWARF 4, as Debian's ends with an error at DWARF 5). A truth is called inside the interval if
it is, or is not further from it than the truth's own error allows (1.96 of its and the interval's added as squares); how
many are without that is said too.

CAUSAL_TRUTH (1) and CAUSAL_SECONDS (60) are the seconds of a run of each kind, CAUSAL_REPEATS (5) how often the
truth is measured; CAUSAL_CACHE names a file that keeps truths for the next time, CAUSAL_KEEP a directory for profiles.
CAUSAL_COZ (60) are Coz's seconds, 0: without it. CAUSAL_HOG: another program computes on one of the processors all the time, also while truths are measured. Among the names, `truth`: only that; `kept`: nothing is measured that is kept.
"""

import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys

import bench

SOURCES = bench.HERE.parent / "tests/programs/causal"
TRUTH = float(os.environ.get("CAUSAL_TRUTH", "1"))
SECONDS = float(os.environ.get("CAUSAL_SECONDS", "60"))
REPEATS = int(os.environ.get("CAUSAL_REPEATS", "5"))
CACHE = os.environ.get("CAUSAL_CACHE")
KEEP = os.environ.get("CAUSAL_KEEP")
KEPT = "kept" in sys.argv[2:]
COZ = float(os.environ.get("CAUSAL_COZ", "60"))
HOG = "CAUSAL_HOG" in os.environ
PERCENTS = [25, 50, 75, 100]
RUNTIME = os.environ.get("CAUSAL_RUNTIME")

C = ["gcc", "-g", "-O1", "-fno-omit-frame-pointer", "-pthread"]
PROGRAMS = {
    "two_threads": C,
    "pipeline": C,
    "lock_bound": C,
    "barrier": C,
    "trylock": C,
    "many_threads": C,
    "phases": C,
    "server": C + ["-lm"],
    "open_loop": C + ["-lm"],
    "device": C,
    # Lines that wait for what is outside; the second three were written before these were measured.
    "read_ahead": C,
    "locked_disk": C,
    "poller": C,
    "fan_in": C,
    "journal": C,
    # Lines that run in the kernel.
    "kernel": C,
    "copier": C,
    # Lines of a macro are those where it is used.
    "pipeline.rs": ["rustc", "--edition", "2024", "-g", "-O", "-Ccollapse-macro-debuginfo=yes"],
    "atomic_wait.cpp": ["g++", "-std=c++20", "-g", "-O2", "-pthread"],
    "libc": ["gcc", "-g", "-O2", "-fomit-frame-pointer", "-pthread"],
}


# A run of these is long enough to see all of it: phases of some seconds; requests that arrive by chance.
LONGER = {"phases": 5, "server": 3, "open_loop": 3}


def build(name, *more):
    source = SOURCES / (name if "." in name else name + ".c")
    program = bench.TEMPORARY / (source.stem + "_" + source.suffix[1:] + "".join(more))
    command, *options = *PROGRAMS[name], *more
    subprocess.run([command, source, "-o", program, *options], check=True)
    lines = {}
    included = re.findall(r'#include "(\w+\.c)"', source.read_text())
    for file in [source, *(SOURCES / name for name in included)]:
        for number, text in enumerate(file.read_text().splitlines(), 1):
            if found := re.search(r"// line: (\w+)|/\* line: (\w+)", text):
                lines[found[1] or found[2]] = f"{file.name}:{number}"
    return program, lines


def period(output):
    """What a faster program has less of: the time between visits, or the latency."""
    kind, value = output.split()
    # A program that came to a standstill was visited once in ever so long.
    return 1 / max(float(value), 1e-3) if kind == "rate" else float(value)


def run(program, line="none", percent=0, seconds=TRUTH, wrapper=()):
    words = [*wrapper, program, line, percent, seconds]
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, timeout=seconds + 60
    )
    if done.returncode:
        sys.exit(f"{words}: exit code {done.returncode}\n{done.stderr}")
    return period(next(l for l in done.stdout.splitlines() if re.match("rate|latency", l)))


def stolen():
    """Seconds that the hypervisor took so far, of all CPUs."""
    ticks = pathlib.Path("/proc/stat").read_text().split(None, 10)[8]
    return int(ticks) / os.sysconf("SC_CLK_TCK")


def undisturbed(*words, seconds):
    """A run during which the hypervisor took less than 3 % of the machine; the last of five at the worst."""
    for _ in range(5):
        before = stolen()
        value = run(*words, seconds=seconds)
        if stolen() - before < 0.03 * seconds * len(bench.CPUS):
            break
    return value


def truth(name, program, lines):
    """For each line, the true program speedup at each percentage, with its standard error; and the period of the
    program as it is."""
    kept = json.loads(pathlib.Path(CACHE).read_text()) if CACHE and os.path.exists(CACHE) else {}
    if name in kept:
        return kept[name]["speedups"], kept[name]["base"]
    seconds = TRUTH * LONGER.get(name, 1)
    asked = [(line, percent) for line in lines for percent in PERCENTS]
    gains = {key: [] for key in asked}
    bases = []
    for _ in range(REPEATS):
        before = undisturbed(program, seconds=seconds)
        # The machine's speed wanders: what is compared ran one after the other.
        for line, percent in random.sample(asked, len(asked)):
            faster = undisturbed(program, line, percent, seconds=seconds)
            behind = undisturbed(program, seconds=seconds)
            gains[line, percent].append(1 - 2 * faster / (before + behind))
            bases.append(behind)
            before = behind
    base = statistics.median(bases)

    def typical(values):
        middle = statistics.median(values)
        spread = 1.4826 * statistics.median(abs(value - middle) for value in values)
        return middle, max(1.2533 * spread / len(values) ** 0.5, 0.002)

    speedups = {line: {str(p): typical(gains[line, p]) for p in PERCENTS} for line in lines}
    if CACHE:
        kept[name] = {"speedups": speedups, "base": base}
        pathlib.Path(CACHE).write_text(json.dumps(kept, indent=1))
    return speedups, base


def wrapper(output, *options):
    runtime = ["--runtime", RUNTIME] if RUNTIME else []
    return [bench.VITALFEW, "causal", "run", "-q", "--runs", "1", *runtime, "-o", output, *options, "--"]


def report(*files):
    command = [bench.VITALFEW, "causal", "report", "--all", "--json", *files]
    done = subprocess.run(command, capture_output=True, text=True)
    return json.loads(done.stdout) if done.stdout else {"findings": []}


def find(findings, place):
    """The effect of a line on what its program is about: latency, where there is one."""
    for rank, finding in enumerate(findings):
        if finding["name"].endswith("/" + place) or finding["name"] == place:
            effects = finding["effects"]
            latencies = [e for e in effects if e["measure"] == "latency"]
            return rank, (latencies or effects)[0]
    return None, None


def by_coz(name, output):
    """Coz's own numbers: its points, read where they are nearest."""
    coz = shutil.which("coz")
    if not coz or not COZ:
        return []
    if not (KEPT and output.exists()):
        output.unlink(missing_ok=True)
        # It ignores a whole line table for an attribute that it does not expect.
        older = ["-gdwarf-4", "-gno-variable-location-views"]
        if PROGRAMS[name][0] == "rustc":
            older = ["-Cdwarf-version=4"]
        try:
            program, _ = build(name, *older)
            words = [coz, "run", "-o", output, "---", program, "none", "0", COZ]
            subprocess.run([str(word) for word in words], capture_output=True, timeout=COZ + 60)
        except subprocess.SubprocessError:
            return []
    return report(output)["findings"] if output.exists() else []


def nearest(effect, percent):
    points = effect["points"] if effect else []
    return min(points, key=lambda p: abs(100 * p["speedup"] - percent), default=None)


def percent(value):
    return "-" if value is None else f"{100 * value:+.1f}"


class Sums:
    def __init__(self):
        self.errors, self.coz_errors, self.covered, self.missing = [], [], [], []
        self.strictly = 0
        self.first, self.overheads = [], []
        # Lines that gain less than a point however much faster they are, and those of them that are called worth it.
        self.worthless, self.wrongly_worth = 0, []


def accuracy(name, sums):
    program, lines = build(name)
    speedups, base = truth(name, program, lines)
    kept = pathlib.Path(KEEP) if KEEP else bench.TEMPORARY
    ours = kept / f"{program.name}.json"
    if not (KEPT and ours.exists()):
        ours.unlink(missing_ok=True)
        loaded = run(program, seconds=SECONDS, wrapper=wrapper(ours))
        sums.overheads.append((name, loaded / base - 1))
    findings = report(ours)["findings"]
    coz = by_coz(name, kept / f"{program.name}.coz")
    for line, place in lines.items():
        _, effect = find(findings, place)
        worthless = all(true < 0.01 for true, _ in speedups[line].values())
        sums.worthless += worthless
        if worthless and effect and effect["verdict"].startswith("worth"):
            sums.wrongly_worth.append(f"{name} {line}")
        _, coz_effect = find(coz, place)
        for at in PERCENTS:
            true, error = speedups[line][str(at)]
            estimates = effect["at"] if effect else []
            found = next((e for e in estimates if abs(100 * e["speedup"] - at) < 1), None)
            point = nearest(coz_effect, at)
            row = f"{name:16}{line:9}{at:4}%{percent(true):>8} ± {100 * error:3.1f}"
            if found:
                off = found["program"] - true
                sums.strictly += found["low"] <= true <= found["high"]
                side = found["high"] - found["program"] if off < 0 else found["program"] - found["low"]
                inside = abs(off) <= (side**2 + (1.96 * error) ** 2) ** 0.5
                sums.errors.append(abs(off))
                sums.covered.append(inside)
                row += f"{percent(found['program']):>9} [{percent(found['low']):>6}, {percent(found['high']):>6}]"
                row += f"{percent(off):>8}  {'' if inside else 'outside'}"
            else:
                sums.missing.append((name, line, at))
                row += "  no estimate"
            if point:
                sums.coz_errors.append(abs(point["program"] - true))
                row += f"  Coz {percent(point['program'])} ± {percent(point['error'])[1:]}"
            print(row, flush=True)
    best = max(lines, key=lambda line: max(true for true, _ in speedups[line].values()))
    ranks = {line: find(findings, place)[0] for line, place in lines.items()}
    first = ranks[best] is not None and ranks[best] == min(
        rank for rank in ranks.values() if rank is not None
    )
    sums.first.append((name, first))
    top = findings[0]["name"] if findings else "nothing"
    print(f"{name:16}worth most: {best}; ranked first: {'yes' if first else 'NO, ' + top}\n", flush=True)


def begin_hog():
    """Starts what CAUSAL_HOG asks for; it ends with us."""
    if HOG:
        bench.start("taskset", "-c", bench.CPUS[-1], "sh", "-c", "while :; do :; done")


def main():
    begin_hog()
    named = [argument for argument in sys.argv[2:] if argument in PROGRAMS] or PROGRAMS
    sums = Sums()
    if "truth" in sys.argv[2:]:
        for name in named:
            truth(name, *build(name))
        return
    print("program         line      at    true ± error  predicted [95 %]        off  (points of program speedup)")
    for name in named:
        accuracy(name, sums)
    if sums.errors:
        inside = sum(sums.covered)
        print(f"mean absolute error {100 * statistics.mean(sums.errors):.1f} points (goal 3); "
              f"truth inside the interval {inside} of {len(sums.covered)} (goal 9 of 10), "
              f"{sums.strictly} without the truth's own error; "
              f"without an estimate {len(sums.missing)}")
        print(f"the line worth most first in {sum(f for _, f in sums.first)} of {len(sums.first)} programs; "
              f"called worth it of {sums.worthless} worthless lines: {len(sums.wrongly_worth)} {sums.wrongly_worth}")
    if sums.overheads:
        print(f"mean overhead while delaying {100 * statistics.mean(o for _, o in sums.overheads):.1f}%")
    if sums.coz_errors:
        print(f"Coz: mean absolute error {100 * statistics.mean(sums.coz_errors):.1f} points, "
              f"{len(sums.coz_errors)} of {4 * len(sums.errors) // 4 + len(sums.missing)} estimates")


if __name__ == "__main__":
    main()
