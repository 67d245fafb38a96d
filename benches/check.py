#!/usr/bin/env python3
"""check.py VITALFEW: how often does `check` raise a false alarm, and how often does it find that a program got 8 % slower?

Comparisons by turns (`--base`; CHECK_WAY=against: with a measurement made before), of a program with itself and with a form that does 8 % more of its work under the same name: a compiled program of which one of eight functions
does 64 % more (and, is it named first?), and gzip with a longer file, a program that nobody wrote for this. CHECK_PAIRS (20) says how many pairs are equal; half as many are slower. CHECK_PROGRAMS names one of the two.
"""

import json
import os
import random
import shlex
import subprocess

from bench import TEMPORARY, VITALFEW, head, row, title

EQUAL = int(os.environ.get("CHECK_PAIRS", "20"))
PROGRAMS = os.environ.get("CHECK_PROGRAMS", "compiled gzip").split()
RUNS = os.environ.get("CHECK_RUNS", "12")
LIMIT = "5%"
BY_TURNS = os.environ.get("CHECK_WAY", "base") == "base"
SLOWER = 1.08
# How `check` ends.
ENDS = {0: "allowed", 6: "slower", 4: "unclear"}

# About a quarter of a second, in eight functions that do the same work.
FUNCTIONS = ["load", "parse", "check", "sort", "join", "render", "pack", "store"]
SOURCE = """
#define FUNCTION(name, start)                                                        \\
  __attribute__((noinline)) static unsigned long name(unsigned long value) {         \\
    value += start;                                                                  \\
    for (long i = 0; i < 20000; i++) value = 0xfedcba9876543210u / (value | 1) + i;  \\
    return value;                                                                    \\
  }
""" + "".join(f"FUNCTION({name}, {number})\n" for number, name in enumerate(FUNCTIONS)) + """
int main(void) {
  unsigned long value = 1;
""" + "".join(f"  for (int i = 0; i < {'RENDER' if name == 'render' else 'OTHERS'}; i++) value = {name}(value);\n" for name in FUNCTIONS) + """
  return value == 42;
}
"""
OTHERS = RENDER = 375


def compiled(render):
    path = TEMPORARY / f"app-{render}" / "app"
    path.parent.mkdir(exist_ok=True)
    words = ["cc", "-O2", "-g", f"-DOTHERS={OTHERS}", f"-DRENDER={render}", "-x", "c", "-o", path, "-"]
    subprocess.run(words, input=SOURCE, text=True, check=True)
    return path


class Compiled:
    name, place = "compiled", "render"

    def __init__(self):
        self.forms = [[compiled(RENDER)], [compiled(int(RENDER * (1 + len(FUNCTIONS) * (SLOWER - 1))))]]


class Gzip:
    name, place = "gzip", None

    def __init__(self):
        words = [f"word{number}" for number in range(5000)]
        text = " ".join(random.Random(1).choices(words, k=1_000_000)).encode()
        self.forms = []
        for size in (4_000_000, int(4_000_000 * SLOWER)):
            path = TEMPORARY / f"text-{size}"
            path.write_bytes(text[:size])
            self.forms.append(["gzip", "-kfc", path])


def check(command, *options):
    words = [VITALFEW, "check", "-q", "--runs", RUNS, *options, "--", *command]
    return subprocess.run([str(word) for word in words], capture_output=True, text=True)


def pair(program, slower):
    """How `check` ends, and what it says."""
    base, command = program.forms[0], program.forms[slower]
    if BY_TURNS:
        compared = ["--base", shlex.join(map(str, base))]
    else:
        compared = ["--against", TEMPORARY / "base.json"]
        before = check(base, "-o", compared[1])
        assert before.returncode == 0, before.stderr
    after = check(command, *compared, "--fail-over", LIMIT, "--json")
    assert after.returncode in ENDS, after.stderr
    return ENDS[after.returncode], json.loads(after.stdout)


def first_name(result):
    """The procedure that is named first; where none differs by more than chance, the one that grew most."""
    claims = result["claims"]["list"]
    return json.dumps(claims[0]["place"]) if claims else (result["most_changed"] or {}).get("name", "")


def main():
    title(f"`check --fail-over {LIMIT}`, {RUNS} runs a side")
    head("program", "form", "pairs", *ENDS.values(), "CPU, off by at most, points", "its interval, median width", "names the function first")
    for program in (kind() for kind in (Compiled, Gzip) if kind.name in PROGRAMS):
        told = {False: [], True: []}
        for number in range(EQUAL):
            told[False].append(pair(program, False))
            if number % 2:
                told[True].append(pair(program, True))
        for slower, ends in told.items():
            times = [next(time for time in result["times"] if time["what"] == "CPU") for _, result in ends]
            truth = SLOWER if slower else 1
            off = max(abs(time["factor"] - truth) for time in times)
            width = sorted(time["high"] - time["low"] for time in times)[len(times) // 2]
            named = sum(program.place in first_name(result) for _, result in ends) if program.place and slower else "-"
            counted = [sum(end == one for end, _ in ends) for one in ENDS.values()]
            row(program.name, "8 % slower" if slower else "equal", len(ends), *counted, f"{100 * off:.1f}", f"{100 * width:.1f}", named)


main()
