#!/usr/bin/env python3
"""What a sample's user stack costs in the kernel, and how many stacks are whole.

walks.py cost [--tool PATH]    ns per run of the collector's BPF program, by the kernel's own statistics; the deep program
                               has 26 frames (main, 21 of a recursion, one below, and the C library's), or 6
walks.py whole [--tool PATH]   the share of whole stacks of some programs, first (no tables yet) and second run
walks.py own [--tool PATH]     the recorder's own CPU time on a compile of many short processes, beside perf record -g

As root; needs gcc, g++, rustc, sqlite3, python3, make and perf.
"""
import argparse
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time

DEEP = r"""
#include <stdlib.h>
#include <unistd.h>
volatile unsigned sink;
__attribute__((noipa)) void leaf(void) { unsigned x = 1; for (int i = 0; i < 20000; i++) x = x * 1664525u + 1013904223u; sink += x; }
__attribute__((noipa)) void deep(int n) { if (n) deep(n - 1); else for (;;) leaf(); sink++; }
int main(int c, char **v) { alarm(5); deep(atoi(v[1])); }
"""
CPP = r"""
#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>
int main() {
  std::map<std::string, int> m; std::vector<std::string> v;
  for (int r = 0; r < 12; r++) {
    for (int i = 0; i < 60000; i++) m[std::to_string(i * 7919 % 60000)] += i;
    v.clear(); for (auto &p : m) v.push_back(p.first + "x");
    std::function<bool(const std::string &, const std::string &)> f = [](auto &a, auto &b) { return a > b; };
    std::sort(v.begin(), v.end(), f);
    try { m.at("none"); } catch (std::exception &) {}
  }
  return v.size() == 1;
}
"""
RUST = r"""
use std::collections::*;
fn main() {
    let mut sum = 0u64;
    for r in 0..30u64 {
        let m: BTreeMap<String, u64> = (0..40000u64).map(|i| ((i * 7919 % 40009 + r).to_string(), i)).collect();
        let mut v: Vec<_> = m.into_iter().collect();
        v.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
        sum += v.iter().map(|(k, v)| k.len() as u64 * v).sum::<u64>();
    }
    println!("{sum}");
}
"""
PYTHON = """
import json
def f(n): return n if n < 2 else f(n - 1) + f(n - 2)
for i in range(4):
    f(24)
    d = {str(k): [k] * 3 for k in range(60000)}
    json.loads(json.dumps(d))
    sorted(d, reverse=True)
"""
SQL = """
create table t(a, b);
with recursive c(x) as (select 1 union all select x + 1 from c where x < 700000) insert into t select x, x * 7919 % 10007 from c;
create index i on t(b);
select b, count(*) from t group by b order by 2 desc limit 3;
select count(*) from t x join t y on x.b = y.a;
"""


def write(path, text):
    with open(path, "w") as file:
        file.write(text)
    return path


def run_time(pid):
    """(ns, runs) of the BPF program of perf events that ran most."""
    best = (0, 0)
    for info in glob.glob(f"/proc/{pid}/fdinfo/*"):
        try:
            text = open(info).read()
        except OSError:
            continue
        if re.search(r"^prog_type:\s+7$", text, re.M):
            number = lambda name: int(re.search(rf"^{name}:\s+(\d+)", text, re.M)[1])
            best = max(best, (number("run_time_ns"), number("run_cnt")), key=lambda x: x[1])
    return best


def one_cost(tool, arguments, command, directory):
    recorder = subprocess.Popen(
        [tool, "record", "-F", "4000", "-o", directory + "/c.vf", *arguments, "--", *command],
        stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    time.sleep(2)
    before = run_time(recorder.pid)
    time.sleep(2)
    after = run_time(recorder.pid)
    recorder.wait()
    subprocess.run(["pkill", "-P", str(recorder.pid)], check=False)
    return (after[0] - before[0]) / max(after[1] - before[1], 1)


def cost(tool, directory):
    source = write(directory + "/deep.c", DEEP)
    programs = {}
    for name, flag in [("without", "-fomit-frame-pointer"), ("with", "-fno-omit-frame-pointer")]:
        programs[name] = f"{directory}/deep-{name}"
        subprocess.run(["gcc", "-O1", "-fno-optimize-sibling-calls", flag, source, "-o", programs[name]], check=True)
    write("/proc/sys/kernel/bpf_stats_enabled", "1")
    source = write(directory + "/c.cpp", CPP)
    loop = f"while :; do g++ -O2 -c {source} -o {directory}/c.o; done"
    compile = ["timeout", "5", "sh", "-c", loop]
    deep = lambda name, depth: [programs[name], str(depth)]
    cases = [("flat", ["--no-stacks"], deep("without", 20)), ("frame pointers, 6 frames", ["--call-graph", "fp"], deep("with", 0)),
             ("frame pointers, 26 frames", ["--call-graph", "fp"], deep("with", 20)),
             ("tables, 6 frames", ["-g"], deep("without", 0)), ("tables, 26 frames", ["-g"], deep("without", 20)),
             ("compile, flat", ["--no-stacks"], compile), ("compile, frame pointers", ["--call-graph", "fp"], compile),
             ("compile, tables", ["-g"], compile)]
    seen = {name: [] for name, *_ in cases}
    try:
        for _ in range(3):
            for name, arguments, command in cases:
                seen[name].append(one_cost(tool, arguments, command, directory))
    finally:
        write("/proc/sys/kernel/bpf_stats_enabled", "0")
    for name, values in seen.items():
        print(f"{name:28} {statistics.median(values):7.0f} ns a sample  ({', '.join(f'{v:.0f}' for v in values)})")


def whole(tool, directory):
    write(directory + "/p.py", PYTHON)
    write(directory + "/s.sql", SQL)
    write(directory + "/c.cpp", CPP)
    write(directory + "/r.rs", RUST)
    walks = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/programs/walks.c")
    build = [["gcc", "-O2", "-fomit-frame-pointer", "-pthread", walks, "-o", directory + "/walks"],
             ["g++", "-O2", directory + "/c.cpp", "-o", directory + "/cpp"],
             ["rustc", "-O", directory + "/r.rs", "-o", directory + "/rust"]]
    for command in build:
        subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    programs = {"C, -O2, signals and threads": [directory + "/walks"], "C++": [directory + "/cpp"], "Rust": [directory + "/rust"],
                "gcc -O2": ["g++", "-O2", "-c", directory + "/c.cpp", "-o", directory + "/c.o"],
                "sqlite3": ["sqlite3", ":memory:", "-init", directory + "/s.sql", ".quit"],
                "python3": ["python3", directory + "/p.py"]}
    for name, command in programs.items():
        environment = dict(os.environ, XDG_CACHE_HOME=f"{directory}/cache-{len(name)}")
        for run in ["first", "second"]:
            result = subprocess.run([tool, "record", "-g", "-F", "1000", "-o", directory + "/w.vf", "--", *command],
                                    env=environment, capture_output=True, text=True)
            lines = result.stderr.splitlines()
            said = [line.split("user frames: ")[1] for line in lines if "user frames: " in line]
            samples = [line.split()[1] for line in lines if "samples; " in line]
            print(f"{name:28} {run:6} {samples[0] if samples else '?':>7} samples: {said[0] if said else result.stderr}")


def cpu_time(pid):
    """Seconds of all threads of a process, by its CPU clock (see clock_getcpuclockid)."""
    return time.clock_gettime((~pid << 3) | 2)


def own(tool, directory):
    """Of the recorder while it runs, after 4 s in which tables are made; for each sample, and at the rate of the samples."""
    for i in range(60):
        write(f"{directory}/f{i}.c", f"#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint f{i}(int n) {{ return n * {i} + (n >> 3); }}\n")
    script = f"cd {directory}; end=$(($(date +%s) + 14)); while [ $(date +%s) -lt $end ]; do for f in f*.c; do echo $f; done | xargs -P 2 -n 1 cc -O2 -c; done"
    seen = {}
    for _ in range(3):
        for hertz in ("5000", "1000"):
            perf = ["perf", "record", "-q", "-g", "-e", "cpu-clock", "-F", hertz, "-o", directory + "/perf.data", "--"]
            ours = [tool, "record", "-e", "cpu-clock", "-F", hertz, "-o", directory + "/o.vf"]
            for name, command in [("flat", [*ours, "--no-stacks", "--"]), ("stacks", [*ours, "-g", "--"]), ("perf -g", perf)]:
                recorder = subprocess.Popen([*command, "sh", "-c", script], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                time.sleep(4)
                begin, before = time.monotonic(), cpu_time(recorder.pid)
                time.sleep(9)
                share = 100 * (cpu_time(recorder.pid) - before) / (time.monotonic() - begin)
                text = recorder.communicate()[1]
                counts = re.search(r"([\d,]+) cpu-clock samples", text)
                seen.setdefault((hertz, name), []).append((share, counts[1] if counts else "?", "dropped" in text))
    for (hertz, name), values in seen.items():
        shares = [share for share, *_ in values]
        counts = ", ".join(f"{share:.2f} % ({count}{' DROPPED' if dropped else ''})" for share, count, dropped in values)
        print(f"{hertz:>5} Hz {name:8} {statistics.median(shares):5.2f} % of a CPU; each run with its samples in 14 s: {counts}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["cost", "whole", "own"])
    parser.add_argument("--tool", default="target/release/vitalfew")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        {"cost": cost, "whole": whole, "own": own}[arguments.what](os.path.abspath(arguments.tool), directory)


if __name__ == "__main__":
    sys.exit(main())
