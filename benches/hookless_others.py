"""hookless_others.py VITALFEW [SECONDS] [PROGRAM...]: programs that nobody here wrote, predicted without hooks and with them.

Each compressor works on one file of some 100 MB in several threads, as its package has it: functions are known by their addresses where it is
stripped. A unit of work is a `write`. For each function that both runs have an estimate of, the predictions at 50 and 100 % in percent of the
time, with their intervals. SECONDS (30): of each run. For the machine to be quiet is the caller's matter.
"""

import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

COMMANDS = {
    "pigz": ["pigz", "-p", "2", "-9", "-c"],
    "xz": ["xz", "-T2", "-2", "--block-size=512KiB", "-c"],
    "zstd": ["zstd", "-q", "-T2", "-12", "-c"],
}
SPEEDUPS = (50, 100)
MEGABYTES = 100


def make_file(path):
    """Text of this machine, again and again."""
    sources = sorted(pathlib.Path("/usr/include").rglob("*.h"))
    text = b"".join(source.read_bytes() for source in sources[:2000] if source.is_file())
    with path.open("wb") as file:
        while file.tell() < MEGABYTES << 20:
            file.write(text[: (MEGABYTES << 20) - file.tell()])


def estimates(vitalfew, command, seconds, profile, *options):
    profile.unlink(missing_ok=True)
    run = [vitalfew, "causal", "run", "-q", "--by", "function", "--progress", "syscall:write", "--for", f"{seconds}s", "--no-waits"]
    run += [*options, "-o", profile, "--", *command]
    subprocess.run(run, stdout=subprocess.DEVNULL, timeout=4 * seconds + 60)
    report = subprocess.run([vitalfew, "causal", "report", "--json", "--all", profile], capture_output=True, text=True)
    found = {}
    for finding in json.loads(report.stdout or '{"findings": []}')["findings"]:
        for effect in finding["effects"][:1]:
            for estimate in effect["at"]:
                found[finding["name"], round(100 * estimate["speedup"])] = estimate
    return found


def shown(estimate):
    return f"{100 * estimate['program']:.1f} [{100 * estimate['low']:.1f}, {100 * estimate['high']:.1f}]"


def main():
    words = sys.argv[2:]
    seconds = next((int(word) for word in words if word.isdigit()), 30)
    differences, agree = [], []
    print("| program | function | speedup | with hooks | without |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as where:
        file, profile = pathlib.Path(where) / "text", pathlib.Path(where) / "profile"
        make_file(file)
        for name in [word for word in words if word in COMMANDS] or COMMANDS:
            command = [*COMMANDS[name], file]
            with_hooks = estimates(sys.argv[1], command, seconds, profile)
            without = estimates(sys.argv[1], command, seconds, profile, "--no-hooks")
            for (function, speedup), hooked in with_hooks.items():
                hookless = without.get((function, speedup))
                if speedup not in SPEEDUPS or hookless is None:
                    continue
                off = hookless["program"] - hooked["program"]
                differences.append(abs(100 * off))
                agree.append(hookless["low"] <= hooked["high"] and hooked["low"] <= hookless["high"])
                print(f"| {name} | {function} | {speedup} | {shown(hooked)} | {shown(hookless)} |", flush=True)
    if differences:
        print(f"mean difference {statistics.mean(differences):.1f} points over {len(differences)}; intervals overlap in {sum(agree)}")


main()
