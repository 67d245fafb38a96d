"""bytes.py VITALFEW: bytes on disk per sample of a compile, and the share in unknown code."""

import json
import re
import subprocess
import sys

import bench

BYTES, UNKNOWN = 0.6, 0.001


def main():
    project = bench.make_c_project(bench.TEMPORARY / "project")
    compiling = bench.compile_for(project, bench.SECONDS)
    ours, theirs = bench.TEMPORARY / "compile.vf", bench.TEMPORARY / "perf.data"
    bench.title(f"Bytes on disk per sample: {bench.SECONDS:.0f} s of compiling small C files, {bench.HERTZ} Hz")
    bench.head("written by", "samples", "bytes", "bytes a sample", "goal", "")

    # Ours first, then perf; the one has nothing to do with the other.
    subprocess.run([*map(str, bench.vitalfew_record("-o", ours)), "--", *compiling], check=True)
    report = json.loads(
        subprocess.run(
            [bench.VITALFEW, "report", "--json", ours], check=True, capture_output=True
        ).stdout
    )
    said = subprocess.run(
        [*map(str, bench.perf_record("-o", theirs)), "--", *compiling], capture_output=True, text=True
    ).stderr
    match = re.search(r"\((\d+) samples\)", said)
    if not match:
        sys.exit(f"bytes: perf record said no number of samples: {said}")

    taken = report["recorded_events"][0]
    size = sum(f.stat().st_size for f in ours.rglob("*")) if ours.is_dir() else ours.stat().st_size
    each = size / taken["stored"]
    peer = theirs.stat().st_size / int(match[1])
    bench.row(
        "vitalfew",
        taken["stored"],
        size,
        f"{each:.2f}",
        f"≤ {BYTES}",
        f"{bench.verdict(each, BYTES)}; perf writes {bench.ratio(peer, each)} times as much",
    )
    bench.row("perf record", match[1], theirs.stat().st_size, f"{peer:.2f}", "", "")

    event = report["events"][0]
    unknown = event["unknown"] / event["total"]
    print(
        f"\nSamples in unknown code: {event['unknown']:.0f} of {event['total']:.0f}, {unknown:.3%}"
        f" (goal < {UNKNOWN:.1%}: {bench.verdict(unknown, UNKNOWN)});"
        f" dropped {taken['dropped']}, lost {taken['lost']}.",
        flush=True,
    )


if __name__ == "__main__":
    main()
