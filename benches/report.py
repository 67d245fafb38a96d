"""report.py VITALFEW: how long a report takes on a program with 200 MB of debug information."""

import re
import subprocess
import sys
import time

import bench

UNITS, PROCEDURES, TYPES = 64, 300, 7500
SECONDS, MEMORY = 2.0, 1 << 30
PATIENCE = 120
CACHE = bench.HERE.parent / "target" / "bench"
PROGRAM = CACHE / f"large-{UNITS}-{PROCEDURES}-{TYPES}"


def unit(number):
    """Types, and procedures with inlined calls and locals: what makes debug information big."""
    members = "".join(f"long member_{m}_of; " for m in range(24))
    text = [f"struct type_{number}_{i} {{ {members}struct type_{number}_{i} *next_{i}; }};" for i in range(TYPES)]
    text += ["typedef struct { long a, b, c; double x, y; struct { int p, q; } in; } record_t;"]
    for i in range(4):
        text.append(f"""
typedef struct {{ record_t first; long m{i}[4]; char name_{number}_{i}[16]; }} shape_{number}_{i};
static inline __attribute__((always_inline)) long step_{number}_{i}(shape_{number}_{i} *s, long k)
{{
	long low = k * {i + 3} + s->m{i}[k & 3], high = low ^ (k >> {i + 1});
	for (long turn = 0; turn < 2; turn++) {{
		long mixed = high + turn * low;
		s->m{i}[turn] = mixed;
		high = mixed ^ (mixed << {i % 5 + 1});
	}}
	return high;
}}""")
    for j in range(PROCEDURES):
        shapes = "".join(f"\tshape_{number}_{i} s{i} = {{ .m{i} = {{ k, {j}, 3, 4 }} }};\n" for i in range(4))
        calls = "".join(f"\tsum += step_{number}_{(j + i) % 4}(&s{(j + i) % 4}, sum + {i});\n" for i in range(5))
        text.append(
            f"__attribute__((noinline)) long procedure_{number}_{j}(long k)\n"
            f"{{\n\tlong sum = k;\n{shapes}{calls}\treturn sum;\n}}"
        )
    names = ", ".join(f"procedure_{number}_{j}" for j in range(PROCEDURES))
    text.append(f"long (*const unit_{number}[{PROCEDURES}])(long) = {{ {names} }};\n")
    return "\n".join(text)


def main_unit():
    """Calls some procedures often and all of them now and then, for the seconds it is given."""
    declared = "".join(f"extern long (*const unit_{u}[])(long);\n" for u in range(UNITS))
    units = ", ".join(f"unit_{u}" for u in range(UNITS))
    return f"""#include <stdlib.h>
#include <time.h>
{declared}
static long (*const *const units[])(long) = {{ {units} }};
int main(int count, char **arguments)
{{
	time_t end = time(0) + (count > 1 ? atoi(arguments[1]) : 5);
	unsigned long random = 88172645463325252u;
	long sum = 0;
	while (time(0) < end)
		for (int i = 0; i < 100000; i++) {{
			random ^= random << 13, random ^= random >> 7, random ^= random << 17;
			double skewed = (random >> 11) * 0x1p-53;
			long chosen = skewed * skewed * skewed * {UNITS * PROCEDURES};
			sum += units[chosen % {UNITS}][chosen / {UNITS}](sum);
		}}
	return sum == 42;
}}
"""


def built():
    if PROGRAM.exists():
        return
    print("building a program with much debug information (kept in target/bench) ...", file=sys.stderr)
    CACHE.mkdir(parents=True, exist_ok=True)
    source = bench.TEMPORARY / "large"
    source.mkdir()
    for number in range(UNITS):
        (source / f"unit{number}.c").write_text(unit(number))
    (source / "main.c").write_text(main_unit())
    objects = " ".join(f"unit{n}.o" for n in range(UNITS)) + " main.o"
    (source / "Makefile").write_text(
        f"large: {objects}\n\tcc -o $@ {objects}\n%.o: %.c\n\tcc -g -O1 -fno-eliminate-unused-debug-types -c -o $@ $<\n"
    )
    subprocess.run(["make", "-s", f"-j{len(bench.CPUS)}", "-C", source], check=True)
    (source / "large").replace(PROGRAM.with_suffix(".new"))
    PROGRAM.with_suffix(".new").replace(PROGRAM)
    # The sources are gone, as they often are.


def debug_bytes():
    listing = subprocess.run(
        ["readelf", "-SW", PROGRAM], capture_output=True, text=True, check=True
    ).stdout
    return sum(int(m[1], 16) for m in re.finditer(r"\.debug_\w+\s+\w+\s+\w+ \w+ (\w+)", listing))


def recording(command, seconds):
    """Records the program; returns how long the recorder goes on after its end, and its memory.
    Names of procedures may be looked up then, and cost the report nothing."""
    ended = bench.TEMPORARY / "ended"
    script = f'"{PROGRAM}" {seconds}; date +%s.%N >"{ended}"'
    *_, memory = bench.measured(*command, "--", "sh", "-c", script)
    return time.time() - float(ended.read_text()), memory


def main():
    built()
    ours, theirs = bench.TEMPORARY / "large.vf", bench.TEMPORARY / "large.data"
    seconds = str(max(3, round(bench.SECONDS / 6)))
    stacks = bench.TEMPORARY / "large-g.vf"
    recorded = [
        ("vitalfew record", recording(bench.vitalfew_record("-o", ours), seconds)),
        ("perf record", recording(bench.perf_record("-q", "-o", theirs), seconds)),
        ("vitalfew record -g", recording(bench.vitalfew_record("-g", "-o", stacks), seconds)),
    ]
    bench.title(
        f"Report on a program of {UNITS * PROCEDURES} procedures with"
        f" {debug_bytes() / 1e6:.0f} MB of debug information"
    )
    bench.head("command", "wall, runs", "peak memory", "goal", "")
    report = [bench.VITALFEW, "report"]
    perf = ["perf", "report", "--stdio", "-i", theirs]
    commands = [
        ("vitalfew report", [*report, ours], 3),
        ("perf report --stdio", perf, 3),
        ("vitalfew report --by line", [*report, "--by", "line", ours], 3),
        ("perf report --stdio --sort srcline", [*perf, "--sort", "srcline"], 1),
        ("vitalfew report --tree (recorded with -g)", [*report, "--tree", stacks], 3),
    ]
    for name, (wall, memory) in recorded:
        bench.row(f"{name}: after the program's end", f"{wall:.2f} s", f"{memory >> 20} MiB", "", "")
    walls = {}
    for name, command, runs in commands:
        found = [bench.measured(*command, patience=PATIENCE) for _ in range(runs)]
        if None in found:
            bench.row(name, f"> {PATIENCE} s, given up", "", "", "")
            continue
        walls[name] = min(wall for _, wall, _ in found)
        worst, memory = max(wall for _, wall, _ in found), max(memory for *_, memory in found)
        is_ours = name.startswith("vitalfew")
        bench.row(
            name,
            ", ".join(f"{wall:.2f} s" for _, wall, _ in found),
            f"{memory >> 20} MiB",
            f"< {SECONDS:.0f} s, < {MEMORY >> 20} MiB" if is_ours else "",
            f"{bench.verdict(worst, SECONDS)}; memory {bench.verdict(memory, MEMORY)}" if is_ours else "",
        )
    print()
    for ours, theirs in (commands[0][0], commands[1][0]), (commands[2][0], commands[3][0]):
        if ours in walls and theirs in walls:
            print(f"{ours}: {bench.ratio(walls[ours], walls[theirs])} times the time of {theirs}")


if __name__ == "__main__":
    main()
