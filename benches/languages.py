#!/usr/bin/env python3
"""Programs in other languages whose time is split 3:1 between two of their functions: what `vitalfew record -g` says of that.

For each interpreter (those given, else those of pyenv and the system's, each JDK, each Go of GOTOOLCHAINS, as "go1.20.14 local", and each node of NODES, as a command and running already), for each way to call: the share of the samples in
functions of the language that are in or below `three`, how far that is from 75 %, how much of the samples of the process has functions of its own, and how much of
those in the two has their callers: `rounds`, and with `recursive` twenty of `descend` above `three`.
"""
import glob
import os
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "../tests/programs/languages/shares.py")
VITALFEW = os.environ.get("VITALFEW", os.path.join(HERE, "../target/release/vitalfew"))


def folded(words, how, seconds, running=False):
    """The stacks of a command, or of a process that runs already for a second."""
    with tempfile.TemporaryDirectory() as directory:
        recording = os.path.join(directory, "r.vf")
        record = [VITALFEW, "record", "-g", "-F", "1000", "-o", recording]
        if running:
            process = subprocess.Popen([*words, "1000", how])
            time.sleep(1)
            subprocess.run([*record, "-p", str(process.pid), "--for", f"{seconds}s"], check=True, capture_output=True)
            process.kill()
            process.wait()
        else:
            subprocess.run([*record, "--", *words, str(seconds), how], check=True, capture_output=True)
        export = [VITALFEW, "export", "--format", "folded", "--no-inline", recording]
        return subprocess.run(export, check=True, capture_output=True, text=True).stdout


def show(name, version, words, seconds, own_frame, three_frame, one_frame, ways=("plain", "recursive", "threads"), running=False):
    for how in ways:
        total = own = three = one = called = 0
        descends = "(descend.*){20}" if how == "recursive" else ""
        callers = f"(rounds|labelled).*({descends}{three_frame}|{one_frame})"
        for line in folded(words, how, seconds, running).splitlines():
            stack, count = line.rsplit(" ", 1)
            count = int(count)
            total += count
            own += count if re.search(own_frame, stack) else 0
            three += count if re.search(three_frame, stack) else 0
            one += count if re.search(one_frame, stack) else 0
            called += count if re.search(callers, stack) else 0
        share = 100 * three / max(three + one, 1)
        print(f"{name:48} {version:7} {how:10} {total:8} {100 * own / max(total, 1):6.2f}% {share:6.2f}% {share - 75:+6.2f} {100 * called / max(three + one, 1):6.2f}%", flush=True)


def java():
    """JAVAS: programs `java` of JDK 11 and later."""
    with tempfile.TemporaryDirectory() as classes:
        source = os.path.join(HERE, "../tests/programs/languages/Shares.java")
        subprocess.run(["javac", "--release", "11", "-d", classes, source], check=True)
        for program in os.environ.get("JAVAS", "java").split():
            said = subprocess.run([program, "-version"], capture_output=True, text=True).stderr
            version = re.search(r'"([^"]+)"', said)[1]
            for running in (False, True):
                name = "java, running already" if running else "java"
                words = [program, "-cp", classes, "Shares"]
                ways = ("plain", "threads") if running else ("plain", "recursive", "threads")
                show(name, version, words, 8, r"\bShares\.", r"Shares\.three ", r"Shares\.one ", ways, running)


def go():
    """Stripped programs of each version."""
    source = os.path.join(HERE, "../tests/programs/languages/shares.go")
    for toolchain in os.environ.get("GOTOOLCHAINS", "local").split():
        with tempfile.TemporaryDirectory() as directory:
            built = os.path.join(directory, "shares")
            environment = dict(os.environ, GOTOOLCHAIN=toolchain)
            subprocess.run(["go", "build", "-ldflags=-s -w", "-o", built, source], check=True, env=environment)
            said = subprocess.run(["go", "version", built], capture_output=True, text=True, check=True).stdout
            version = said.split("go1")[-1].strip()
            ways = ("plain", "recursive", "threads", "labels")
            show("go", "1" + version, [built], 3, r"main\.", r"main\.three", r"main\.one", ways)


def node():
    """What V8 inlines has no name of its own; its second compiler came with version 22."""
    script = os.path.join(HERE, "../tests/programs/languages/shares.js")
    for program in os.environ.get("NODES", "node").split():
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.strip()[1:]
        flags = ["--no-turbo-inlining"] + (["--no-maglev-inlining"] if int(version.split(".")[0]) >= 22 else [])
        for running in (False, True):
            name = "node, running already" if running else "node"
            show(name, version, [program, *flags, script], 3, r"shares\.js", r"three \(shares", r"one \(shares", ("plain", "recursive"), running)


def ruby():
    script = os.path.join(HERE, "../tests/programs/languages/shares.rb")
    for program in os.environ.get("RUBIES", "ruby").split():
        version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()[1]
        show(program, version, [program, script], 4, r"\.rb:", r"three \(shares\.rb:", r"one \(shares\.rb:")


# Counts what it does in argv[1] seconds.
WORK = """
import sys, time
def step(depth): return step(depth - 1) + 1 if depth else sum(i * i for i in range(50))
end, done = time.monotonic() + float(sys.argv[1]), 0
while time.monotonic() < end: step(20); done += 1
print(done)
"""


def cost_of(tools, command, wait, seconds):
    """Runs a program that counts what it does beside each tool in turn, at RATES (100 and 1000). A tool is what the command has in front of its arguments, and the words that record a process; either may be empty."""
    for rate in map(int, os.environ.get("RATES", "100 1000").split()):
        found = {name: [] for name in tools}
        for _ in range(int(os.environ.get("ROUNDS", "5"))):
            for name, words in tools.items():
                with tempfile.TemporaryDirectory() as directory:
                    inside, beside = words(rate, os.path.join(directory, "out"))
                    program = subprocess.Popen([command[0], *inside, *command[1:], str(seconds)], stdout=subprocess.PIPE, text=True)
                    time.sleep(wait)
                    used = 0
                    if beside:
                        before = resource.getrusage(resource.RUSAGE_CHILDREN)
                        subprocess.run([*beside, str(program.pid)], check=True, capture_output=True)
                        after = resource.getrusage(resource.RUSAGE_CHILDREN)
                        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                    found[name].append((int(program.communicate()[0].split()[-1]), used))
        alone = statistics.median(work for work, _ in found["nothing"])
        for name, runs in found.items():
            work, used = (statistics.median(values) for values in zip(*runs))
            least, most = (100 * end(work for work, _ in runs) / alone for end in (min, max))
            print(f"{rate:>5} Hz {name:22} work {100 * work / alone:6.1f} % ({least:.1f} to {most:.1f})   own CPU {100 * used / seconds:5.1f} % of a CPU", flush=True)


def our_record(rate, out, seconds):
    return [VITALFEW, "record", "-q", "-F", str(rate), "-o", out, "--for", f"{seconds}s", "-p"]


def cost():
    """What py-spy (PYSPY) and `record` cost a Python program at the same rate: how much less it does, and their own CPU time."""
    seconds = 4
    spy = lambda rate, out: [os.environ["PYSPY"], "record", "-r", str(rate), "-d", str(seconds - 1), "-f", "raw", "-o", out]
    tools = {
        "nothing": lambda rate, out: ([], []),
        "vitalfew": lambda rate, out: ([], our_record(rate, out, seconds - 1)),
        "py-spy": lambda rate, out: ([], [*spy(rate, out), "-p"]),
        "py-spy --nonblocking": lambda rate, out: ([], [*spy(rate, out), "--nonblocking", "-p"]),
    }
    cost_of(tools, ["/usr/bin/python3", "-c", WORK], 0.3, seconds)


def java_cost():
    """The same of async-profiler (ASYNC_PROFILER: its library), which works in the program itself, and a program in Java, for each of JAVAS."""
    seconds = 4
    with tempfile.TemporaryDirectory() as classes:
        subprocess.run(["javac", "--release", "11", "-d", classes, os.path.join(HERE, "java/Work.java")], check=True)
        for java in os.environ.get("JAVAS", "java").split():
            agent = lambda rate, out: f"-agentpath:{os.environ['ASYNC_PROFILER']}=start,event=ctimer,interval={1000000000 // rate},collapsed,file={out}"
            tools = {
                "nothing": lambda rate, out: ([], []),
                "vitalfew": lambda rate, out: ([], our_record(rate, out, seconds + 1)),
                "async-profiler": lambda rate, out: ([agent(rate, out)], []),
            }
            print(java, flush=True)
            cost_of(tools, [java, "-cp", classes, "Work"], 1.5, seconds)


def main():
    if sys.argv[1:2] == ["cost"]:
        return java_cost() if sys.argv[2:] == ["java"] else cost()
    found = sys.argv[1:] or ["/usr/bin/python3"] + sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")))
    print(f"{'interpreter':56} {'how':10} {'samples':>8} {'own':>7} {'three':>7} {'off by':>6} {'callers':>7}")
    for interpreter in (word for word in found if word not in ("java", "go", "node", "ruby")):
        version = subprocess.run([interpreter, "--version"], capture_output=True, text=True).stdout.split()[1]
        if tuple(map(int, version.split(".")[:2])) < (3, 8):
            continue
        show(interpreter, version, [interpreter, PROGRAM], 4, r"\.py:", r"shares\.three ", r"shares\.one ", ("plain", "recursive", "threads", "short"))
    if not sys.argv[1:] or "java" in sys.argv[1:]:
        java()
    if not sys.argv[1:] or "go" in sys.argv[1:]:
        go()
    if not sys.argv[1:] or "node" in sys.argv[1:]:
        node()
    if not sys.argv[1:] or "ruby" in sys.argv[1:]:
        ruby()


if __name__ == "__main__":
    main()
