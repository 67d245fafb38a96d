"""hookless.py VITALFEW [--for SECONDS] [PROGRAM[:KIND]]…: predictions without hooks beside the truth, and beside those with hooks.

KIND: `hooks` and `no-hooks` (dynamic), `static`, `musl` (static), `go1` and `go2` (with a GOMAXPROCS of 1 and 2). The truth is measured: the rate of
the program with the line's work really made 25 and 50 % less, over that of the program as it is, three runs of 3 s each in turn. Predicted is the
effect of `causal run` at the same speedups, in percent of the time. For the machine to be quiet is the caller's matter.
"""

import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).parent
PROGRAMS = HERE.parent / "tests/programs/causal"
SPEEDUPS = (25, 50)
# Lines that are looked at, by the comments that name them; in Go functions.
C = {
    "pipeline": ["middle", "last"],
    "lock_bound": ["inside", "outside"],
    "two_threads": ["a", "b"],
}
GO = {
    "pipeline": ["stageA", "stageB"],
    "locks": ["locked", "free"],
    "pool": ["divide", "solve"],
    "workers": ["fill", "drain"],
    "cond": ["produce", "consume"],
    "uneven": ["long", "short"],
}


def built(name, kind, where):
    """The program, the words before its knob, and its environment."""
    program = where / f"{name}-{kind}"
    if kind.startswith("go"):
        sources = sorted(path.name for path in (PROGRAMS / "go").glob("*.go"))
        subprocess.run(["go", "build", "-o", program, *sources], cwd=PROGRAMS / "go", check=True)
        return [program, name], {**os.environ, "GOMAXPROCS": kind[2:]}
    compiler = ["musl-gcc"] if kind == "musl" else ["cc"]
    options = ["-static"] if kind in ("static", "musl") else []
    subprocess.run([*compiler, "-O2", "-g", "-pthread", *options, PROGRAMS / f"{name}.c", "-o", program], check=True)
    return [program], os.environ


def rate(command, environment, line, percent):
    ran = subprocess.run([*command, line, str(percent), "3"], env=environment, capture_output=True, text=True, check=True)
    return float(ran.stdout.split()[-1])


def truths(command, environment, lines):
    """By line and speedup: percent of the time that is saved."""
    rates = {}
    for _ in range(3):
        for line, percent in [("none", 0), *((line, percent) for line in lines for percent in SPEEDUPS)]:
            rates.setdefault((line, percent), []).append(rate(command, environment, line, percent))
    base = statistics.mean(rates.pop(("none", 0)))
    return {key: 100 * (1 - base / statistics.mean(values)) for key, values in rates.items()}


def predictions(vitalfew, command, environment, kind, point, place_of, seconds, where):
    profile = where / "profile"
    profile.unlink(missing_ok=True)
    options = ["-q", "--progress", point, "--for", str(seconds), "--no-waits", "-o", profile]
    options += ["--no-hooks"] if kind == "no-hooks" else []
    options += ["--by", "function", "--scope", "programs.go", "--scope", "held_out.go"] if kind.startswith("go") else []
    run = [vitalfew, "causal", "run", *options, "--", *command, "none", "0", str(seconds - 1)]
    subprocess.run(run, env=environment, check=True, stdout=subprocess.DEVNULL)
    report = subprocess.run([vitalfew, "causal", "report", "--json", "--all", profile], capture_output=True, text=True, check=True)
    found = {}
    for finding in json.loads(report.stdout)["findings"]:
        line = place_of.get(finding["name"].rsplit("/", 1)[-1])
        for effect in finding["effects"][:1]:
            for estimate in effect["at"]:
                found[line, round(100 * estimate["speedup"])] = estimate
    return found


def main():
    arguments = sys.argv[2:]
    seconds = int(arguments[arguments.index("--for") + 1]) if "--for" in arguments else 40
    chosen = [word for word in arguments if ":" in word or word in C or word in GO]
    print("| program | kind | line | speedup | truth | predicted |\n| --- | --- | --- | --- | --- | --- |")
    errors = {}
    with tempfile.TemporaryDirectory() as where:
        for word in chosen or [f"{name}:{kind}" for name in C for kind in ("hooks", "no-hooks", "static", "musl")]:
            name, kind = word.split(":")
            command, environment = built(name, kind, pathlib.Path(where))
            lines = (GO if kind.startswith("go") else C)[name]
            point, place_of = "function:main.progress", {f"main.{line}": line for line in lines}
            if not kind.startswith("go"):
                source = list(enumerate((PROGRAMS / f"{name}.c").read_text().splitlines(), 1))
                point = f"{name}.c:{next(at for at, text in source if text.strip().startswith('VITALFEW_PROGRESS('))}"
                place_of = {f"{name}.c:{at}": line for line in lines for at, text in source if f"line: {line} " in text}
            truth = truths(command, environment, lines)
            predicted = predictions(sys.argv[1], command, environment, kind, point, place_of, seconds, pathlib.Path(where))
            for (line, speedup), real in truth.items():
                estimate = predicted.get((line, speedup))
                shown = "none"
                if estimate is not None:
                    shown = f"{100 * estimate['program']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"
                    errors.setdefault(kind, []).append(abs(100 * estimate["program"] - real))
                print(f"| {name} | {kind} | {line} | {speedup} | {real:.1f} | {shown} |", flush=True)
    for kind, all_errors in errors.items():
        print(f"mean error, {kind}: {statistics.mean(all_errors):.1f} points over {len(all_errors)}")


main()
