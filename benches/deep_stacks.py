"""deep_stacks.py VITALFEW: peak memory where nearly every sample has a stack of its own.

Two threads recurse 300 deep along paths of chance (`tests/programs/deep_paths.c`). They are recorded at 5 kHz for a while and for some times
as long, and read by `report`, with callers as well, and by `bottlenecks`. Fails if one of these takes more than the bound. DEEP_SECONDS (10) is the length of the shorter recording.
"""

import os
import re
import subprocess
import sys

import bench

SECONDS = int(os.environ.get("DEEP_SECONDS", "10"))
LONGER = 4
BOUND = 400 << 20


def megabytes(size):
    return f"{size / 1e6:.0f} MB"


def lost_callers(recording):
    """What `report` says in its first line, as percentages."""
    report = subprocess.run([bench.VITALFEW, "report", recording], capture_output=True, text=True, check=True)
    text = report.stdout + report.stderr
    said = [re.search(pattern, text) for pattern in (r"([\d.]+) % of the samples lack callers", r"([\d.]+) % of the [\d,]+ samples")]
    return ", ".join(found[1] + " %" if found else "none" for found in said)


def recordings(program):
    bench.title("A recording, and its report")
    bench.head("seconds", "frames", "record", "report", "--tree", "--callers", "bottlenecks", "lack callers, lost")
    within = True
    for seconds, frames in [(SECONDS, 300), (LONGER * SECONDS, 300), (LONGER * SECONDS, 30)]:
        out = bench.TEMPORARY / "deep.vf"
        record = [bench.VITALFEW, "record", "-q", "-F", bench.HERTZ, "-o", out, "--", program, seconds, frames]
        recorded = bench.measured(*record)
        readers = [
            ["report", out],
            ["report", out, "--tree"],
            ["report", out, "--callers", "leaf"],
            ["bottlenecks", out, "--auto", "--no-cache"],
        ]
        peaks = [recorded[2]] + [bench.measured(bench.VITALFEW, *reader)[2] for reader in readers]
        bench.row(seconds, frames, *map(megabytes, peaks), lost_callers(out))
        within &= max(peaks) <= BOUND
    return within


def main():
    program = bench.TEMPORARY / "deep_paths"
    source = bench.HERE.parent / "tests/programs/deep_paths.c"
    subprocess.run(["cc", "-O2", "-fomit-frame-pointer", "-pthread", "-o", program, source], check=True)
    within = recordings(program)
    print(f"\nBound: {megabytes(BOUND)}: " + ("met" if within else "**missed**"))
    return 0 if within else 1


if __name__ == "__main__":
    sys.exit(main())
