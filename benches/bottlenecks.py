"""bottlenecks.py VITALFEW: load, memory and answers of the search on trees of 1.5 and 10 million nodes.

The trees are made here: random walks over a random call graph with cycles, of the size, depth and out-degree
of a real profile that was measured before (1,550,473 nodes, 4,605 methods, depth 75, out-degree 2). The large
one is seven copies under seven outermost frames. They are written as pprof, with two value types.

BENCH_PROFILE=FILE searches a real profile, too: the walk with 14 labels is slower where methods recur much.
"""

import gzip
import json
import multiprocessing
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys
import time

import bench

METHODS, DEPTH, NODES, COPIES = 4600, 75, 1_550_000, 7
LOAD_SECONDS, LOAD_MEMORY, SECOND_START, AUTO_SECONDS = 3.0, 500e6, 0.2, 5.0
ANSWER_MS = {1: 10, COPIES: 100}
NODE_BYTES = 60
CACHE = bench.HERE.parent / "target" / "bench"


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def stacks(seed):
    """The nodes of a call tree: (parent, method), parents first."""
    dice = random.Random(seed)
    weights = [0.55, 0.25, 0.12, 0.08]
    callees = []
    for method in range(METHODS):
        # Mostly deeper into the program; now and then back up, which makes recursion.
        reach = [(method + dice.randint(1, 120)) % METHODS for _ in range(3)]
        callees.append(reach + [dice.randrange(METHODS)])
    index, parents, methods = {}, [0], [0]
    while len(parents) < NODES:
        node, method = 0, 0
        for _ in range(dice.randint(DEPTH // 3, DEPTH)):
            method = dice.choices(callees[method], weights)[0]
            key = node * METHODS + method
            child = index.get(key)
            if child is None:
                child = index[key] = len(parents)
                parents.append(node)
                methods.append(method)
            node = child
    return parents, methods


def profile(copies, seed=1):
    """A pprof file; returns its path. Kept in target/bench."""
    path = CACHE / f"tree-{NODES}-{copies}-{seed}.pb.gz"
    if not path.exists():
        print(f"making a profile of {copies * NODES:,} nodes (kept in target/bench) ...", file=sys.stderr)
        # In a process of its own: the peak memory of what we start later counts from what we hold.
        maker = multiprocessing.Process(target=make, args=(path, copies, seed))
        maker.start()
        maker.join()
        if maker.exitcode:
            sys.exit("bench: the profile could not be made")
    return path


def make(path, copies, seed):
    CACHE.mkdir(parents=True, exist_ok=True)
    parents, methods = stacks(seed)
    names = [b"", b"samples", b"count", b"cpu", b"nanoseconds"]
    names += [b"package%d.method%d" % (m % 97, m) for m in range(METHODS)]
    names += [b"copy%d" % c for c in range(copies)]
    dice = random.Random(seed + 1)
    new = path.with_suffix(".new")
    with gzip.open(new, "wb", compresslevel=1) as out:
        out.write(field(1, b"\x08\x01\x10\x02") + field(1, b"\x08\x03\x10\x04"))
        for number in range(METHODS + copies):
            identity, name = varint(number + 1), varint(number + 5)
            out.write(field(5, b"\x08" + identity + b"\x10" + name))
            out.write(field(4, b"\x08" + identity + field(4, b"\x08" + identity)))
        for name in names:
            out.write(field(6, name))
        above = [varint(METHODS + 1 + c) for c in range(copies)]
        encoded = [b""] * len(parents)
        for node in range(1, len(parents)):
            encoded[node] = stack = varint(methods[node] + 1) + encoded[parents[node]]
            count = min(1000, int(dice.paretovariate(1.1)))
            values = field(2, varint(count) + varint(count * 10_000_000))
            for top in above if copies > 1 else [b""]:
                out.write(field(2, field(1, stack + top) + values))
    new.replace(path)


class Session:
    """A search that is asked line by line."""

    def __init__(self, path):
        command = [bench.VITALFEW, "bottlenecks", path, "--json", "--script", "-"]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
        self.process = bench.start(*command, **pipes)

    def cpu(self):
        with open(f"/proc/{self.process.pid}/schedstat") as stat:
            return int(stat.read().split()[0]) / 1e6

    def tell(self, line):
        self.process.stdin.write(line + "\n")

    def ask(self, line):
        """The answer, with the milliseconds of CPU and of wall time that it took."""
        cpu, begin = self.cpu(), time.monotonic()
        self.tell(line)
        answer = self.process.stdout.readline()
        wall = (time.monotonic() - begin) * 1e3
        return json.loads(answer), self.cpu() - cpu, wall

    def end(self):
        self.process.stdin.close()
        bench.end(self.process)


def walk(session, starts, steps, dice):
    """Selects what is near, as an analyst would: mostly the first, now and then another."""
    taken = []
    for suggester in ("HighCum", "HighBase"):
        for start in range(starts):
            session.tell(f"set suggester {suggester}")
            answer, *cost = session.ask("suggest")
            taken.append(cost)
            rows = answer["rows"]
            number = start
            for step in range(steps):
                session.tell(f"set zoom {'off' if step % 3 == 2 else 'on'}")
                if number >= len(rows):
                    break
                answer, *cost = session.ask(f"select {number}")
                taken.append(cost)
                rows = answer["nearby"]
                number = 0 if dice.random() < 0.7 else dice.randrange(max(1, len(rows)))
    return taken


def answers(path, copies, starts):
    session = Session(path)
    dice = random.Random(7)
    session.tell("set suggester HighBase")
    session.ask("suggest")
    for label in range(14):
        session.ask("suggest")
        session.ask(f"select {label}")
        for _ in range(label % 4):
            session.ask("select 0")
        session.tell(f"label l{label}")
    taken = walk(session, starts, 8, dice)
    session.end()
    for name, place in ("CPU", 0), ("wall", 1):
        times = sorted(cost[place] for cost in taken)
        middle, tail = times[len(times) // 2], times[min(len(times) - 1, len(times) * 99 // 100)]
        goal = ANSWER_MS[copies]
        bench.row(
            f"answer with 14 labels, {len(times):,} commands, {name}",
            f"p50 {middle:.1f} ms, p99 {tail:.1f} ms, max {times[-1]:.0f} ms",
            "",
            f"p99 < {goal} ms",
            bench.verdict(tail, goal),
        )


def searched(path, copies, empty):
    """The rows of one profile; of a large one other goals hold."""
    ours = [bench.VITALFEW, "bottlenecks", path]
    head = subprocess.run([*ours, "--script", empty], capture_output=True, text=True, check=True).stdout
    nodes = int(re.search(r"([\d,]+) calling contexts", head)[1].replace(",", ""))
    bench.title(f"Search: {nodes:,} calling contexts, pprof of {path.stat().st_size / 1e6:.0f} MB")
    bench.head("", "time", "peak memory", "goal", "")
    each = f"≤ {NODE_BYTES} bytes a node"
    cpu, wall, memory = bench.measured(*ours, "--no-cache", "--script", empty)
    if copies == 1:
        goal = f"< {LOAD_SECONDS:.0f} s CPU, < {LOAD_MEMORY / 1e6:.0f} MB"
        met = f"{bench.verdict(cpu, LOAD_SECONDS)}; memory {bench.verdict(memory, LOAD_MEMORY)}"
    else:
        goal, met = each, bench.verdict(memory / nodes, NODE_BYTES)
    took = f"CPU {cpu:.2f} s, wall {wall:.2f} s"
    bench.row("load", took, f"{memory / 1e6:.0f} MB, {memory / nodes:.0f} bytes a node", goal, met)
    cpu, wall, memory = min(bench.measured(*ours, "--script", empty) for _ in range(3))
    goal = f"< {SECOND_START * 1e3:.0f} ms" if copies == 1 else each
    met = bench.verdict(cpu, SECOND_START) if copies == 1 else bench.verdict(memory / nodes, NODE_BYTES)
    bench.row(
        "second start", f"CPU {cpu * 1e3:.0f} ms, wall {wall * 1e3:.0f} ms",
        f"{memory / 1e6:.0f} MB, {memory / nodes:.0f} bytes a node", goal, met,
    )
    answers(path, copies, 20 if copies == 1 else 8)
    cpu, wall, memory = bench.measured(*ours, "--auto")
    goal = f"< {AUTO_SECONDS:.0f} s CPU" if copies == 1 else ""
    met = bench.verdict(cpu, AUTO_SECONDS) if goal else ""
    bench.row("--auto, with its start", f"CPU {cpu:.2f} s, wall {wall:.2f} s", f"{memory / 1e6:.0f} MB", goal, met)


def peers(path, empty):
    """go tool pprof beside us; it reads the profile for each question."""
    other = profile(1, seed=2)
    commands = [
        ("vitalfew, load for a comparison",
         [bench.VITALFEW, "bottlenecks", path, "--against", other, "--no-cache", "--script", empty]),
        ("go tool pprof -top", ["go", "tool", "pprof", "-top", path]),
        ("go tool pprof -peek of a method", ["go", "tool", "pprof", "-peek=method2300$", path]),
        ("go tool pprof -top -focus of a method", ["go", "tool", "pprof", "-top", "-focus=method2300$", path]),
        ("go tool pprof -top -diff_base", ["go", "tool", "pprof", "-top", f"-diff_base={other}", path]),
    ]
    for name, command in commands:
        found = bench.measured(*command)
        cells = ("> 300 s, given up", "") if found is None else (
            f"CPU {found[0]:.1f} s, wall {found[1]:.1f} s", f"{found[2] / 1e6:.0f} MB"
        )
        bench.row(name, *cells, "", "")


def main():
    os.environ["XDG_CACHE_HOME"] = str(bench.TEMPORARY / "cache")
    empty = bench.TEMPORARY / "nothing"
    empty.write_text("")
    searched(profile(1), 1, empty)
    if shutil.which("go"):
        peers(profile(1), empty)
    else:
        print("go is not installed: nothing to compare with", file=sys.stderr)
    if "BENCH_PROFILE" in os.environ:
        searched(pathlib.Path(os.environ["BENCH_PROFILE"]), 1, empty)
    searched(profile(COPIES), COPIES, empty)


if __name__ == "__main__":
    main()
