"""Cycles of kernels with known counts, by `annotate --count` (issue 44, "An absolute scale").

    benches/instructions_count.py VITALFEW [KERNEL...]

Truth: callgrind's executions of each block for a unit of work, times the work that the counted run
did in a second of CPU time. The error is that of the executions in a second, which is that of the
cycles: both have the same clock. (A program may run faster in the run before, which is recorded.) A
kernel is right if its blocks with 90 % of the samples are within 15 %.
BENCH_SECONDS (4) is the length of a run.
"""

import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.abspath(os.environ.get("BENCH_CACHE", "target/bench-instructions"))
SECONDS = os.environ.get("BENCH_SECONDS", "4")
KERNELS = CACHE + "/kernels"
SAID = re.compile(r"^\w+ n (\d+) seconds ([\d.]+)$", re.M)


def truth(name):
    """Executions of the instruction at each address, for a unit of work."""
    out = f"{CACHE}/{name}.callgrind"
    run = subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--compress-pos=no", "--compress-strings=no",
                          f"--callgrind-out-file={out}", KERNELS, name, "0.4"], capture_output=True, text=True, check=True)
    work = int(SAID.search(run.stdout).group(1))
    counts, skip = {}, False
    for line in open(out):
        if line.startswith("calls="):
            skip = True
        elif line.startswith("0x"):
            if not skip:
                fields = line.split()
                counts[int(fields[0], 16)] = counts.get(int(fields[0], 16), 0) + int(fields[2])
            skip = False
    return {at: count / work for at, count in counts.items()}


def judge(tool, name, procedure):
    run = subprocess.run([tool, "annotate", "--count", procedure, "--json", "--", KERNELS, name, SECONDS],
                         capture_output=True, text=True)
    if run.returncode:
        return None, run.stderr.strip().splitlines()[-1:]
    (_, recorded), (work, counted) = SAID.findall(run.stdout)[:2]
    work = int(work) * float(recorded) / float(counted)
    result = json.loads(run.stdout[run.stdout.index("{"):])
    each, left = truth(name), 0.9 * result["samples"]
    worst, said = 1.0, []
    for block in sorted(result["blocks"], key=lambda one: -one["samples"]):
        if left <= 0:
            break
        left -= block["samples"]
        true = each.get(block["start"], 0) * work
        if block["frequency"] is None or block["cycles_not_known"] or not true:
            return None, [run.stderr.strip().splitlines()[-1]] if run.stderr else []
        ratio = block["frequency"] * result["cycles_per_sample"] / true
        said.append("%.2f cycles x%.3f" % (block["samples"] / block["frequency"], ratio))
        worst = max(worst, ratio, 1 / ratio)
    return worst, said


def main():
    tool, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    os.makedirs(CACHE, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-g", "-fno-tree-vectorize", "-static", "-o", KERNELS,
                    HERE + "/instructions/kernels.c"], check=True)
    listed = subprocess.run([KERNELS], capture_output=True, text=True).stdout.split("\n")
    kernels = [line.split() for line in listed if line]
    right, all_ = 0, 0
    for name, procedure in kernels:
        if wanted and name not in wanted:
            continue
        worst, said = judge(tool, name, procedure)
        all_ += 1
        right += worst is not None and worst <= 1.15
        print("%-14s %s  %s" % (name, "no cycles" if worst is None else "off by %.3f" % worst, "; ".join(said[:4])), flush=True)
    print(f"{right} of {all_} within 15 %")


if __name__ == "__main__":
    main()
