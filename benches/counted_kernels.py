#!/usr/bin/env python3
"""How near `annotate --count` comes to the executions of kernels with known rounds.

    benches/counted_kernels.py VITALFEW [KERNEL...]

The hottest block of each kernel is executed once in each round. Prints the estimate divided by the truth
with its 95 % interval, and the cycles of an execution; or why the cycles are not known.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
# Name, and the number of calls or rounds, for some three seconds each.
TUNED = {
    "chase16k": 2500000000, "chase8m": 20000000, "divide": 700000000, "multiply": 1800000000,
    "branch": 600000000, "fnv": 2500000000, "loop24": 80000000, "loop3000": 600000, "loop200000": 9000,
    "search": 22000000, "recurse": 45, "copy": 140000, "vector": 3500000, "unrolled": 2000000000,
    "stride": 16000000,
}
HELD_OUT = {
    "dot": 140000, "crc": 1200, "gather": 90, "sieve": 900, "bits": 100000000, "newton": 400000000,
    "matmul": 50, "chase512k": 300000000, "chase256m": 10000000, "saxpy": 1600000, "lcg": 2300000000,
    "compare": 14000, "horner": 1700000,
}
SECOND = {
    "stencil": 5500, "histogram": 4000, "modulo": 900000000, "lists": 8000, "prefix": 470000, "length": 16000,
    "logistic": 1500000000, "halves": 10000000,
}


def judge(vitalfew, program, name, count):
    """Returns whether the cycles are known, and whether the truth is in the interval."""
    procedure = re.sub("^chase.*", "chase", name)
    command = [vitalfew, "annotate", "--count", procedure, "--json", "--", program, name, str(count)]
    done = subprocess.run(command, capture_output=True, text=True)
    rounds = re.findall(r"ROUNDS (\d+)", done.stderr)
    if done.returncode or not rounds:
        sys.exit(f"{name}: {done.stderr}")
    found = json.loads(done.stdout)
    block = max(found["blocks"], key=lambda one: one["samples"])
    reason = block["cycles_not_known"]
    if reason:
        print(f"{name:12} not known: {reason}", flush=True)
        return False, True
    ratio = block["frequency"] * found["cycles_per_sample"] / float(rounds[0])
    factor = math.exp(1.96 * block["frequency_deviation"])
    cycles = block["samples"] / block["frequency"]
    low, high = ratio / factor, ratio * factor
    print(f"{name:12} {ratio:.3f} [{low:.3f}, {high:.3f}] of the truth, {cycles:.2f} cycles", flush=True)
    return True, low <= 1 <= high


def main():
    vitalfew, wanted = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as directory:
        for half, kernels in (("tuned", TUNED), ("held_out", HELD_OUT), ("second", SECOND)):
            program = f"{directory}/{half}"
            source = f"{HERE}/instructions/{half}_kernels.c"
            # A vector would hold several rounds.
            flags = ["-O2", "-g", "-fno-tree-vectorize", "-fno-tree-slp-vectorize"]
            subprocess.run(["gcc", *flags, "-o", program, source], check=True)
            asked = {name: n for name, n in kernels.items() if not wanted or name in wanted}
            results = [judge(vitalfew, program, name, n) for name, n in asked.items()]
            known = [inside for is_known, inside in results if is_known]
            print(f"{half}: known {len(known)} of {len(results)}, inside {sum(known)}", flush=True)


if __name__ == "__main__":
    main()
