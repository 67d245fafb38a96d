"""causal_sets.py VITALFEW [HALF...] [KIND...]: call sequences and locks that are sped up as a whole, predicted against true.

The programs of `tests/programs/causal/sets.c` (HALF `tuned`) and `gatherings.c` (`held_out`: written after `sets` came out right, before
anybody saw what is predicted for it). The truth is measured: the program with 25, 50 and 75 % less work in the set, each between two runs as it is. The
prediction is a `causal run --sequence` or `--lock` of the program as it is for each of them.

CAUSAL_SECONDS (12): of a prediction, all three runs together. CAUSAL_MICROSECONDS (5000,1000): the lengths of a piece. CAUSAL_TRUTH, CAUSAL_REPEATS,
CAUSAL_CACHE, CAUSAL_KEEP, CAUSAL_EXPERIMENT, CAUSAL_REAL_TIME as in causal_meetings.py; `truth` among the names: only that.
"""

import os
import pathlib
import sys

import bench
import causal
import causal_meetings as meetings

MICROSECONDS = [int(it) for it in os.environ.get("CAUSAL_MICROSECONDS", "5000,1000").split(",")]
causal.PROGRAMS |= {"sets": causal.C, "gatherings": causal.C}
# For each half and kind the program, and its sets with the options that select them.
HALVES = {
    "tuned": {
        "callers": ("sets", {
            "by_long": ["--sequence", "by_long > burn"],
            "by_short": ["--sequence", "by_short > burn"],
        }),
        "sections": ("sets", {"held": ["--lock", "ledger"]}),
    },
    "held_out": {
        "trees": ("gatherings", {
            "from_first": ["--sequence", "from_first > … > descend > leaf"],
            "from_second": ["--sequence", "from_second > descend > descend > descend"],
        }),
        "striped": ("gatherings", {"stripes": ["--lock", "stripes"]}),
        "readers": ("gatherings", {"shared": ["--lock", "shared"]}),
        "turns": ("gatherings", {"turn": ["--lock", "turn"]}),
    },
}


class Case(meetings.Case):
    def __init__(self, half, kind, microseconds):
        self.source, self.sets = HALVES[half][kind]
        self.lines = list(self.sets)
        self.half, self.kind, self.microseconds = half, kind, microseconds
        self.name = f"{kind}, {microseconds / 1000:g} ms"


def predicted(case, program):
    """The findings on each set, under the name of the set."""
    findings = []
    kept = pathlib.Path(causal.KEEP) if causal.KEEP else bench.TEMPORARY
    for name, options in case.sets.items():
        profile = kept / f"{case.kind}-{case.microseconds}-{name}.json"
        profile.unlink(missing_ok=True)
        for percent in meetings.PERCENTS:
            part = profile.with_suffix(".part")
            part.unlink(missing_ok=True)
            more = [*options, "--experiment", meetings.EXPERIMENT, "--fixed-speedup", percent]
            case.rate(program, seconds=meetings.SECONDS / 3, wrapper=causal.wrapper(part, *more))
            if part.exists():
                with profile.open("ab") as file:
                    file.write(part.read_bytes())
        found = causal.report(profile)["findings"] if profile.exists() else []
        findings += [finding | {"name": name} for finding in found if not finding.get("waiting_in")]
    return findings


def main():
    asked = sys.argv[2:]
    for half in [half for half in HALVES if half in asked] or HALVES:
        sums = meetings.Sums()
        print("program           set               true, predicted [95 %] at 25, 50 and 75 %; * outside")
        for kind in [kind for kind in HALVES[half] if kind in asked] or HALVES[half]:
            for microseconds in MICROSECONDS:
                case = Case(half, kind, microseconds)
                program, _ = causal.build(case.source)
                speedups = meetings.truth(case, program)
                if "truth" not in asked:
                    names = {name: name for name in case.sets}
                    meetings.compare(case, names, speedups, predicted(case, program), sums)
        sums.print(half)


if __name__ == "__main__":
    main()
