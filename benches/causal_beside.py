"""causal_beside.py VITALFEW [CASE...]: one thread beside other programs, half of whose work is the line that is asked about.

Cases: `alone`; `hog 1`, `hog 2`: one and two hogs on the thread's processor; `hog beside`: on another one; `server`, whose client is a load
generator; `writer`, whose output a busy program reads. The slope is 0.50 where the thread never waits for another program. For `server` and
`writer` it is measured: the line with half of its work, between two runs as it is. `sleeper` is a thread that sleeps in the background of another server, half idle, which is worth 0. CAUSAL_SECONDS (20): of the prediction; CAUSAL_REPEATS (5), CAUSAL_TRUTH (2): of
the truth. Needs no quiet machine: what others use besides is one more hog.
"""

import os
import re
import statistics
import subprocess
import sys
import time

import bench
import causal

SECONDS = float(os.environ.get("CAUSAL_SECONDS", "20"))
TRUTH = float(os.environ.get("CAUSAL_TRUTH", "2"))
REPEATS = int(os.environ.get("CAUSAL_REPEATS", "5"))
CASES = ["alone", "hog 1", "hog 2", "hog beside", "server", "writer", "sleeper"]
GOAL = 0.03
# Where another line than `half` is asked about.
LINES = {"sleeper": "tidy"}
causal.PROGRAMS |= {"beside": causal.C, "clients": causal.C}


def on(cpu, *words):
    return ["taskset", "-c", str(cpu), *(str(word) for word in words)]


def run(case, program, percent=0, seconds=TRUTH, wrapper=()):
    """Pieces a second."""
    first, second = bench.CPUS[0], bench.CPUS[-1]
    socket = bench.TEMPORARY / "socket"
    others = []
    role = {"server": "server", "writer": "writer", "sleeper": "server"}.get(case, "alone")
    words = [str(word) for word in [*wrapper, program, LINES.get(case, "half"), percent, seconds, role, socket]]
    if case.startswith("hog "):
        # The measurer is on the other processor, as it would be on a larger machine.
        words = on(first, *words) if case == "hog beside" else words
        count = {"hog 1": 1, "hog 2": 2}.get(case, 1)
        cpu = second if case == "hog beside" else first
        others = [bench.start(*on(cpu, program, "none", 0, 1e9, "hog")) for _ in range(count)]
    if case in ("server", "sleeper"):
        others = [bench.start(program, "none", 0, 1e9, "client", socket)]
    told = bench.TEMPORARY / "told"
    with told.open("w") as file:
        output = subprocess.PIPE if case == "writer" else file
        measured = bench.start(*words, stdout=output, stderr=file)
    if case == "writer":
        others = [bench.start(program, "none", 0, 1e9, "reader", stdin=measured.stdout, stdout=subprocess.DEVNULL)]
        measured.stdout.close()
    if case in ("hog 1", "hog 2"):
        time.sleep(0.3 if wrapper else 0)
        children = subprocess.run(["pgrep", "-P", str(measured.pid)], capture_output=True, text=True).stdout.split()
        for child in children if wrapper else [str(measured.pid)]:
            subprocess.run(["taskset", "-a", "-p", "-c", str(first), child], capture_output=True)
    measured.wait(seconds + 60)
    for other in others:
        bench.end(other)
    rate = re.search(r"^rate ([0-9.]+)", told.read_text(), re.MULTILINE)
    if not rate:
        sys.exit(f"{words}: {told.read_text()}")
    return float(rate[1])


def truth(case, program):
    """The slope, and its standard error."""
    if case not in ("server", "writer"):
        return 0.0 if case == "sleeper" else 0.5, 0.0
    slopes = []
    before = run(case, program)
    for _ in range(REPEATS):
        faster = run(case, program, 50)
        behind = run(case, program)
        slopes.append(2 * (1 - (before + behind) / 2 / faster))
        before = behind
    middle = statistics.median(slopes)
    spread = 1.4826 * statistics.median(abs(slope - middle) for slope in slopes)
    return middle, 1.2533 * spread / len(slopes) ** 0.5


def main():
    programs = {name: causal.build(name) for name in ("beside", "clients")}
    for case in [case for case in CASES if case in sys.argv[2:]] or CASES:
        profile = bench.TEMPORARY / (case.replace(" ", "-") + ".json")
        program, lines = programs["clients" if case == "sleeper" else "beside"]
        line = lines[LINES.get(case, "half")]
        true, error = truth(case, program)
        run(case, program, 0, SECONDS, causal.wrapper(profile, "--experiment", "300ms", "--fixed-line", line))
        findings = causal.report(profile)
        _, effect = causal.find(findings["findings"], line)
        if not effect:
            print(f"{case:12} no finding, {findings.get('experiments_disturbed')} of {findings.get('experiments')} set aside", flush=True)
            continue
        slope = effect["slope"]
        print(f"{case:12} truth {true:.3f} ± {error:.3f}, slope {slope:.3f} [{effect['slope_low']:.3f}, {effect['slope_high']:.3f}], "
              f"{findings['experiments_disturbed']} of {findings['experiments']} experiments set aside"
              f"{'' if abs(slope - true) <= GOAL + 1.96 * error else '  MISSED'}", flush=True)


if __name__ == "__main__":
    main()
