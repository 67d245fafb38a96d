#!/usr/bin/env python3
"""Reads every profile in a folder, and compares totals with those of the formats' own tools.

    cargo build -p formats --example tree
    benches/readers.py target/debug/examples/tree FOLDER

What a file is, is told here by other signs than the readers', and first by nothing that they say. A table tells, by
format: files, those that were read, those with a total to compare (by `go tool pprof`, `jfr`, Python's `pstats`, or by
adding up what the file says), and those whose total is right. Refused files are listed with the reason.
"""

import collections
import gzip
import json
import os
import pstats
import re
import subprocess
import sys
import tempfile

sys.setrecursionlimit(100_000)
TREE, FOLDER = sys.argv[1:3]
# Sources, pictures and what tools print beside the profiles.
NOT_PROFILES = (
    ".c .cc .cpp .h .hpp .go .rs .py .rb .js .mjs .ts .tsx .java .kt .kts .cs .php .pl .awk .sh .bash .lua .jsonnet"
    " .libsonnet .gni .descriptor .textproto .pyx .template .css .html .md .mdx .svg .png .gif .jpg .snap .toml .yaml .yml .lock .mod .sum .proto .dot .tmpl"
).split()


def content(path):
    data = open(path, "rb").read()
    for _ in range(3):
        if data[:2] == b"\x1f\x8b":
            try:
                data = gzip.decompress(data)
            except (OSError, EOFError):
                break
    if data[:3] == b"\xef\xbb\xbf":
        data = data[3:]
    elif data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        data = data.decode("utf-16", "replace").encode()
    return data


def fields(data):
    """The fields of a protobuf message."""
    at, found = 0, []

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(data):
        tag = number()
        if tag & 7 == 0:
            found.append((tag >> 3, number()))
        elif tag & 7 == 2:
            length = number()
            if at + length > len(data):
                raise ValueError
            found.append((tag >> 3, data[at : at + length]))
            at += length
        else:
            size = {1: 8, 5: 4}[tag & 7]
            found.append((tag >> 3, data[at : at + size]))
            at += size
    return found


def protobuf_kind(data):
    try:
        top = fields(data)
        first = next(value for field, value in top if field == 1)
        inner = fields(first)
    except (ValueError, KeyError, IndexError, StopIteration, TypeError):
        return None
    if top and {field for field, _ in top} <= {1, 2} and inner and all(isinstance(v, bytes) for _, v in inner):
        return "OTLP" if any(field == 2 for field, _ in inner) else None
    if all(field in (1, 2) and isinstance(v, int) for field, v in inner) and any(f == 6 for f, _ in top):
        return "pprof"
    return None


def json_kind(document):
    if isinstance(document, list):
        events = [e for e in document if isinstance(e, dict)]
        return "Chromium trace" if events and any("ph" in e for e in events) else None
    if not isinstance(document, dict):
        return None
    keys = set(document)
    if "traceEvents" in keys:
        return "Chromium trace"
    if "raw" in keys and "frames" in keys or {"mode", "interval", "frames"} <= keys:
        return "stackprof"
    if "head" in keys:
        return "V8 heap profile" if "selfSize" in document["head"] else "Chromium CPU profile"
    if "nodes" in keys and "timeDeltas" in keys:
        return "Chromium CPU profile"
    if "profiles" in keys and "speedscope" in str(document.get("$schema", "")):
        return "speedscope"
    if "cost_centres" in keys:
        return "GHC profile"
    if "threads" in keys and "meta" in keys or isinstance(document.get("profile"), dict) and "threads" in document["profile"]:
        return "Firefox profile"
    return None


LEGACY = re.compile(rb"heap profile: |heap_v2/|--- (contentionz|heapz|threadz|mutex|contention)|\S+ profile: total \d+\n|--- symbol\n")
PERF = re.compile(rb"^(?!PeriodType|Period:|Samples:)\s*\S.*?\s-?\d+(/\d+)?\s+(\[\d+\]\s+)?(\d+\.\d+:\s+)?(\d+\s+)?[\w\-:/.,=@~+]+:\s*(\n[ \t]*[0-9a-f]{3,}\s|$|\s+[0-9a-f]+ )", re.M)


def kind_of(path, data):
    """The format of a file, or None if it is none that is claimed."""
    if data[:4] == b"FLR\0":
        return "JFR"
    if data[:8] in (b"PERFILE2", b"2ELIFREP"):
        return "perf.data"
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, 40, 8)]
    narrow = [int.from_bytes(data[i : i + 4], "little") for i in range(0, 20, 4)]
    if len(data) > 40 and any(w[0] == 0 and w[1] == 3 and w[2] < 2 and w[3] > 0 and w[4] == 0 for w in (words, narrow)):
        return "gperftools"
    if path.endswith((".pstats", ".pstat")) or data[:1] in b"\xfb{" and data[1:2] in b"(\xa8)\xa9" and b"\0" in data[:32]:
        return "pstats" if data[:1] else None
    if data[:3] == b"\x04\x08{":
        return "stackprof"
    if data[:2] == b"#!":
        return None
    if b"\0" in data[:4096] or any(b < 9 for b in data[:4096]):
        return protobuf_kind(data)
    text = data.lstrip()
    if text[:1] in (b"{", b"["):
        try:
            return json_kind(json.loads(data))
        except ValueError:
            whole = text.rstrip().rstrip(b",") + b"]"
            try:
                return json_kind(json.loads(whole)) if text[:1] == b"[" else None
            except ValueError:
                return None
    # What pprof's tests expect, the kernel's descriptions of events, disassembly.
    if text.startswith((b"PeriodType:", b"name: ")) or b"file format elf" in data[:400]:
        return None
    if LEGACY.match(text):
        return "gperftools"
    if text.startswith(b"# austin: "):
        return "Austin samples"
    if text.startswith(b"v8-version,"):
        return "V8 log"
    if b"Time and Allocation Profiling Report" in data[:400]:
        return "GHC profile"
    if re.search(rb"^(events|# callgrind)", data[:4000], re.M) and b"fn=" in data:
        return "callgrind"
    if PERF.search(data[:100_000]) or data.startswith(b"# ========\n# captured on"):
        return "perf script"
    lines = [line for line in data.splitlines() if line.strip() and line[:1] != b"#" and line[:2] != b"//"]
    stacks = [line for line in lines if re.fullmatch(rb"\S.*[ \t]-?\d+(\.\d+)?\s*", line)]
    if stacks and 2 * len(stacks) > len(lines) and any(b";" in line for line in stacks):
        return "folded stacks"
    return None


def go_pprof(path):
    out = subprocess.run(["go", "tool", "pprof", "-raw", path], capture_output=True, text=True, errors="replace")
    if out.returncode or "Samples:" not in out.stdout:
        return None
    lines = out.stdout.split("Samples:\n", 1)[1].splitlines()
    sums = [0] * len(lines[0].split())
    for line in lines[1:]:
        if line.startswith("Locations"):
            break
        numbers = re.match(r"\s*((?:-?\d+\s*)+):", line)
        if numbers:
            for index, value in enumerate(numbers[1].split()):
                sums[index] += int(value)
    return sums


def self_sizes(node):
    return node["selfSize"] + sum(self_sizes(child) for child in node["children"])


def seconds_of(unit):
    return {"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9}.get(unit, 1)


def jfr_chunks(data):
    """The chunks of a recording. `jfr summary` takes the types of the first chunk for those of all."""
    at = 0
    while data[at : at + 4] == b"FLR\0":
        size = int.from_bytes(data[at + 8 : at + 16], "big")
        yield data[at : at + size]
        at += size or len(data)


def jfr_samples(chunk):
    with tempfile.NamedTemporaryFile(suffix=".jfr") as file:
        file.write(chunk)
        file.flush()
        out = subprocess.run(["jfr", "summary", file.name], capture_output=True, text=True)
    counts = dict(re.findall(r"^ (\S+)\s+(\d+)\s+\d+$", out.stdout, re.M))
    return int(counts.get("jdk.ExecutionSample", 0))


def speedscope_total(profile):
    if profile["type"] == "sampled":
        total = sum(profile["weights"])
    else:
        depth = total = last = 0
        for event in profile["events"]:
            total += (event["at"] - last) * (depth > 0)
            last = event["at"]
            depth += 1 if event["type"] == "O" else -1
        total += (profile["endValue"] - last) * (depth > 0)
    return total * seconds_of(profile["unit"])


def truth(kind, path, data):
    """The totals by value type, in the order of the reader's; None where nothing tells."""
    if kind in ("pprof", "gperftools"):
        return go_pprof(path)
    if kind == "pstats":
        try:
            return [pstats.Stats(path).total_tt * 1e9]
        except Exception:
            return None
    if kind == "JFR":
        samples = sum(map(jfr_samples, jfr_chunks(data)))
        return [samples] if samples else None
    if kind == "stackprof" and data[:1] == b"{":
        return [sum(stack_counts(json.loads(data).get("raw") or [])) or json.loads(data)["samples"]]
    if kind == "V8 heap profile":
        return [self_sizes(json.loads(data)["head"])]
    if kind == "V8 log":
        return [len(re.findall(rb"^tick,", data, re.M))]
    if kind == "Chromium CPU profile":
        profile = json.loads(data)
        deltas = profile.get("timeDeltas")
        return [len(profile["samples"])] + ([times_in_order(profile.get("startTime", 0), deltas, profile.get("endTime"))] if deltas else [])
    if kind == "Chromium trace":
        try:
            return traced_samples(json.loads(data))
        except ValueError:
            return traced_samples(json.loads(data.rstrip().rstrip(b",") + b"]"))
    if kind == "speedscope":
        profiles = json.loads(data)["profiles"]
        return [sum(map(speedscope_total, profiles))] if len({p["unit"] for p in profiles}) == 1 else None
    if kind == "perf script":
        header = rb"^[ \t]*[^#\s].*?\s-?\d+(?:/\d+)?\s+(?:\[\d+\]\s+)?(?:\d+\.\d+:\s+)?(?:\d+\s+)?[A-Za-z][\w\-:/.,=@~+]*:(?:\s*$|\s+[0-9a-f]{4,} )"
        return [len(re.findall(header, data, re.M))]
    if kind == "folded stacks":
        numbers = [line.split()[-1] for line in data.splitlines() if line.strip() and line[:1] != b"#" and line[:2] != b"//"]
        return [sum(float(n) for n in numbers if re.fullmatch(rb"-?\d+(\.\d*)?", n))]
    if kind == "Austin samples":
        times = [line.rsplit(b" ", 1)[1].split(b",")[0] for line in data.splitlines() if re.match(rb"P\d+;", line)]
        return [sum(map(int, times)) * (1 if b"# mode: memory" in data else 1000)]
    if kind == "callgrind":
        # Other writers' summaries are not the sum of what they write.
        summary = re.search(rb"^totals:\s*(\d+)", data, re.M) or re.search(rb"^summary:\s*(\d+)", data, re.M)
        return [int(summary[1])] if summary and re.search(rb"^creator: callgrind", data, re.M) else [own_costs(data)]
    if kind == "GHC profile" and b"ticks @" in data:
        return [int(re.search(rb"\((\d+) ticks", data)[1]) * 1e6]
    if kind == "GHC profile":
        return [json.loads(data)["total_ticks"] * json.loads(data)["tick_interval"] * 1e3]
    return None


def own_costs(data):
    """The first event of all cost lines of callgrind that are no calls'; None if costs are abbreviated."""
    total, positions, is_call = 0, 1, False
    for line in data.splitlines():
        words = line.split()
        if line.startswith(b"positions:"):
            positions = len(words) - 1
        elif line.startswith(b"calls="):
            is_call = True
        elif line[:1] in b"+-*0123456789" and words:
            cost = words[positions] if len(words) > positions else b"0"
            if not cost.isdigit():
                return None
            total += 0 if is_call else int(cost)
            is_call = False
    return total


def times_in_order(start, deltas, end):
    """Nanoseconds from the first sample until `end`, or until the last sample if nothing says more."""
    times, now = [], start
    for delta in deltas:
        now += delta
        times.append(now)
    return (max(end or 0, max(times)) - min(times)) * 1000 if times else 0


def traced_samples(document):
    """Samples and nanoseconds of the CPU profiles in a trace whose functions it has, else nanoseconds by events."""
    profiles = collections.defaultdict(lambda: {"nodes": set(), "samples": [], "deltas": [], "end": 0})
    events = document if isinstance(document, list) else document["traceEvents"]
    for index, event in enumerate(events):
        if event.get("name") not in ("ProfileChunk", "CpuProfile"):
            continue
        data = event.get("args", {}).get("data") or {}
        part = data.get("cpuProfile") or {}
        profile = profiles[event["pid"], event["id"] if event["name"] == "ProfileChunk" else index]
        profile["nodes"].update(node["id"] for node in part.get("nodes", []))
        profile["samples"].extend(part.get("samples", []))
        profile["deltas"].extend(data.get("timeDeltas") or part.get("timeDeltas") or [])
        profile["end"] = max(profile["end"], (part.get("endTime") or 0) - (part.get("startTime") or 0))
    known = [p for p in profiles.values() if any(s in p["nodes"] for s in p["samples"])]
    counts = [sum(sample in p["nodes"] for sample in p["samples"]) for p in known]
    if sum(counts):
        whole = all(count == len(p["samples"]) for count, p in zip(counts, known))
        times = [sum(times_in_order(0, p["deltas"], p["end"]) for p in known)] if whole else []
        return [sum(counts)] + times
    if isinstance(document, dict) and document.get("samples"):
        return [sum(int(sample["weight"]) for sample in document["samples"])]
    return [traced_time(events)]


def traced_time(events):
    """Nanoseconds during which each thread was in an event or more."""
    edges = collections.defaultdict(list)
    for event in events:
        thread = edges[str(event.get("pid")), str(event.get("tid"))]
        if event.get("ph") == "X":
            thread += [(event["ts"], 1), (event["ts"] + (event.get("dur") or 0), -1)]
        elif event.get("ph") in ("B", "E"):
            thread.append((event["ts"], 1 if event["ph"] == "B" else -1))
    total = 0
    for thread in edges.values():
        depth = last = 0
        for at, step in sorted(thread, key=lambda edge: edge[0]):
            total += (at - last) * (depth > 0)
            last = at
            depth = max(0, depth + step)
    return total * 1000


def stack_counts(raw):
    at = 0
    while at < len(raw):
        at += raw[at] + 2
        yield raw[at - 1]


def main():
    rows = collections.defaultdict(collections.Counter)
    refused, wrong = [], []
    for folder, _, names in sorted(os.walk(FOLDER)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            if name.endswith(tuple(NOT_PROFILES)) or name.startswith("README") or not os.path.isfile(path):
                continue
            data = content(path)
            kind = kind_of(path, data) if data else None
            if not kind:
                continue
            row = rows[kind]
            row["files"] += 1
            out = subprocess.run([TREE, path], capture_output=True, text=True, errors="replace", timeout=300)
            if out.returncode:
                refused.append((path, out.stderr.strip().replace(path, "")[:200]))
                row["crashed"] += out.returncode not in (1, 2)
                continue
            row["read"] += 1
            lines = [line for line in out.stdout.splitlines()[1:] if not line.startswith("note: ")]
            totals = [float(line.rsplit(" ", 2)[1]) for line in lines]
            expected = truth(kind, path, data)
            if expected is None or None in expected:
                continue
            row["compared"] += 1
            # perf script has a value type an event, each with its period after it; JFR's are in the order of the file.
            found = [sum(totals[::2])] if kind == "perf script" else totals[: len(expected)]
            if kind == "JFR":
                found = [total for line, total in zip(lines, totals) if re.match(r"samples \d", line)]
            # Sums are rounded by stack; percentages have one decimal.
            near = 0.05 if kind == "GHC profile" and b"bytes\n" not in data and data[:1] != b"{" else 1e-5
            if len(found) == len(expected) and all(abs(a - b) <= max(2, near * abs(b)) for a, b in zip(found, expected)):
                row["right"] += 1
            else:
                wrong.append((path, found, expected))
    print(f"{'format':24}{'files':>8}{'read':>8}{'compared':>10}{'right':>8}")
    total = collections.Counter()
    for kind, row in sorted(rows.items()):
        total.update(row)
        print(f"{kind:24}{row['files']:8}{row['read']:8}{row['compared']:10}{row['right']:8}")
    print(f"{'all':24}{total['files']:8}{total['read']:8}{total['compared']:10}{total['right']:8}")
    print(f"crashed: {total['crashed']}")
    for path, why in refused:
        print(f"refused: {path}: {why}")
    for path, found, expected in wrong:
        print(f"total: {path}: {found}, expected {expected}")


main()
