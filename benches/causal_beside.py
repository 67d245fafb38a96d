"""causal_beside.py VITALFEW [CASE...]: one thread beside other programs, half of whose work is the line that is asked about.

The slope is 0.50 whatever the others do (less what system calls take). Cases: `alone`; `hog N` on the thread's processor, N of them there; `hog beside` on
the other processors; `server`, whose client is a load generator; `writer`, whose output a busier program reads. CAUSAL_SECONDS (20): of a run.
Needs no quiet machine: what others use besides is one more hog.
"""

import os
import subprocess
import sys
import time

import bench
import causal

SECONDS = float(os.environ.get("CAUSAL_SECONDS", "20"))
CASES = ["alone", "hog 1", "hog 2", "hog beside", "server", "writer"]
GOAL = 0.03
causal.PROGRAMS |= {"beside": causal.C}


def on(cpu, *words):
    return ["taskset", "-c", str(cpu), *(str(word) for word in words)]


def run(case, program, line, profile):
    first, second = bench.CPUS[0], bench.CPUS[-1]
    socket = bench.TEMPORARY / "socket"
    others, end = [], None
    role = case if case in ("server", "writer") else "alone"
    wrapper = [str(word) for word in causal.wrapper(profile, "--experiment", "300ms", "--fixed-line", line)]
    words = [*wrapper, str(program), "none", "0", str(SECONDS), role, str(socket)]
    if case.startswith("hog "):
        # The measurer is on the other processor, as it would be on a larger machine.
        words = on(first, *words) if case == "hog beside" else words
        count = {"hog 1": 1, "hog 2": 2}.get(case, 1)
        cpu = second if case == "hog beside" else first
        others = [bench.start(*on(cpu, program, "none", 0, 1e9, "hog")) for _ in range(count)]
    if case == "server":
        others = [bench.start(program, "none", 0, 1e9, "client", socket)]
    output = subprocess.PIPE if case == "writer" else subprocess.DEVNULL
    measured = bench.start(*words, stdout=output, stderr=subprocess.DEVNULL)
    if case == "writer":
        others = [bench.start(program, "none", 0, 1e9, "reader", stdin=measured.stdout, stdout=subprocess.DEVNULL)]
        measured.stdout.close()
    if case in ("hog 1", "hog 2"):
        time.sleep(0.3)
        children = subprocess.run(["pgrep", "-P", str(measured.pid)], capture_output=True, text=True).stdout.split()
        for child in children:
            subprocess.run(["taskset", "-a", "-p", "-c", str(first), child], capture_output=True)
    measured.wait(SECONDS + 60)
    for other in others:
        bench.end(other)


def main():
    program, lines = causal.build("beside")
    for case in [case for case in CASES if case in sys.argv[2:]] or CASES:
        profile = bench.TEMPORARY / (case.replace(" ", "-") + ".json")
        run(case, program, lines["half"], profile)
        findings = causal.report(profile)
        _, effect = causal.find(findings["findings"], lines["half"])
        if not effect:
            print(f"{case:12} no finding, {findings.get('experiments_disturbed')} of {findings.get('experiments')} set aside", flush=True)
            continue
        slope = effect["slope"]
        print(f"{case:12} slope {slope:.3f} [{effect['slope_low']:.3f}, {effect['slope_high']:.3f}], "
              f"{findings['experiments_disturbed']} of {findings['experiments']} experiments set aside"
              f"{'' if abs(slope - 0.5) <= GOAL else '  MISSED'}", flush=True)


if __name__ == "__main__":
    main()
