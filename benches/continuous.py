"""continuous.py VITALFEW: what the daemon costs beyond the bare interrupt, and a week on disk.

The cost is the time in the BPF program above that in an empty one, as the kernel counts it, and the CPU time of
the daemon and of its merges. The week: the daemon records 60 programs, each of eight executables of its own, and a
compile; what it recorded is replayed as seven days of four CPUs (crates/store/examples/week.rs).
"""

import json
import os
import pathlib
import shlex
import shutil
import subprocess
import time

import bench

GOAL = 0.01  # of the machine
MEMORY_GOAL = 20 << 20
QUERY_GOAL = 0.5
DISK_GOAL = 13 << 20
IMAGES = 480
WEEK = pathlib.Path(bench.VITALFEW).parent / "examples" / "week"
SETTLE = 5
STEADY = max(20, bench.SECONDS)
# The defaults if the time measured holds a merge (BENCH_SECONDS=320), else oftener.
INTERVAL, MERGE = (15, 300) if STEADY > 300 else (10, 25)


def cpu_time(pid):
    """Seconds of a process and of its children that ended."""
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def peak(pid):
    lines = open(f"/proc/{pid}/status").read().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def runs_of(command):
    """Nanoseconds of a run of a program that an idle moment gives."""
    profiler = bench.start(*command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    bench.samples_taken(profiler)
    with bench.bpf_statistics():
        runs, spent = bench.bpf_runs(profiler.pid)
        time.sleep(3)
        runs_after, spent_after = bench.bpf_runs(profiler.pid)
    bench.end(profiler)
    return (spent_after - spent) / max(1, runs_after - runs)


def cost():
    project = bench.make_c_project(bench.TEMPORARY / "project")
    spin = [["sh", "-c", "while :; do :; done"]] * len(bench.CPUS)
    compiling = [bench.compile_for(project, 2 * SETTLE + STEADY + 30)]
    bench.title(f"Cost of the daemon beyond the bare interrupt, {bench.HERTZ} Hz on {len(bench.CPUS)} CPUs, {STEADY:.0f} s")
    bench.head("load", "in the kernel", "daemon and merges", "together", "goal", "", "peak memory", "goal", "", "taken = stored + dropped")
    for name, load in (("spin", spin), ("compile", compiling)):
        loads = [bench.start(*words) for words in load]
        empty = runs_of([bench.compiled("empty"), bench.HERTZ])
        database = bench.TEMPORARY / f"daemon-{name}"
        silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        daemon = bench.start(
            bench.VITALFEW, "daemon", "run", "--db", database, "-F", bench.HERTZ, "--budget", "100",
            "--interval", f"{INTERVAL}s", "--merge", f"{MERGE}s", **silent,
        )
        bench.samples_taken(daemon)
        time.sleep(SETTLE)
        with bench.bpf_statistics():
            (runs, spent), cpu, begin = bench.bpf_runs(daemon.pid), cpu_time(daemon.pid), time.monotonic()
            time.sleep(STEADY)
            (runs_after, spent_after), cpu_after = bench.bpf_runs(daemon.pid), cpu_time(daemon.pid)
            machine = (time.monotonic() - begin) * len(bench.CPUS)
        memory = peak(daemon.pid)
        bench.stop(daemon)
        for process in loads:
            bench.end(process)
        events = subprocess.run(
            [bench.VITALFEW, "query", "--db", database, "--json", "SELECT sum(taken) t, sum(stored) s, sum(dropped) d FROM events"],
            check=True, capture_output=True,
        )
        account = json.loads(events.stdout)[0]
        kernel = (spent_after - spent - empty * (runs_after - runs)) / 1e9 / machine
        own = (cpu_after - cpu) / machine
        bench.row(
            name, f"{kernel:.2%}", f"{own:.2%}", f"{kernel + own:.2%}", f"≤ {GOAL:.0%}", bench.verdict(kernel + own, GOAL),
            f"{memory / 1e6:.1f} MB", f"≤ {MEMORY_GOAL >> 20} MiB", bench.verdict(memory, MEMORY_GOAL),
            f"{account['t']:,} = {account['s']:,} + {account['d']:,}" + ("" if account["t"] == account["s"] + account["d"] else " **WRONG**"),
        )


def programs(directory):
    """A shell script that runs 60 programs: each with copies of its own of eight executables, and with a text of its
    own to work on."""
    text = (bench.HERE / "bench.py").read_text()
    lines = []
    for number in range(60):
        place = directory / str(number)
        place.mkdir(parents=True)
        for tool in ("bash", "sort", "sed", "awk", "grep", "gzip", "perl", "as"):
            # Copies with one build-id would be one image.
            subprocess.run(["objcopy", "-R", ".note.gnu.build-id", shutil.which(tool), place / tool], check=True)
        (place / "text").write_text("".join(f"{(number * 7919 + i) % 10007} {line}\n" for i, line in enumerate(text.splitlines() * 2)))
        (place / "code.s").write_text("".join(f"l{i}: add ${(i * number) % 97}, %rax\n" for i in range(500)))
        at = shlex.quote(str(place))
        lines.append(
            f"cd {at}; ./bash -c './sed s/a/b/g text | ./sort | ./grep -v x | ./gzip -9 | ./gzip -dc | ./awk \"{{ n += NF }} END {{ print n }}\"; "
            """./perl -ne "\\$n{\\$_}++ for split; END { print scalar keys %n }" text; ./as code.s -o code.o' >/dev/null"""
        )
    return "\n".join(lines)


def record_week(database):
    """Has the daemon record the programs and a compile, at the full rate."""
    project = bench.make_c_project(bench.TEMPORARY / "week-project")
    script = bench.TEMPORARY / "programs.sh"
    script.write_text(programs(bench.TEMPORARY / "programs"))
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    daemon = bench.start(bench.VITALFEW, "daemon", "run", "--db", database, "-F", bench.HERTZ, "--budget", "100", **silent)
    bench.samples_taken(daemon)
    begin = time.monotonic()
    while time.monotonic() - begin < bench.SECONDS:
        bench.start("sh", script, **silent).wait()
    bench.start(*bench.compile_for(project, bench.SECONDS)).wait()
    seconds = time.monotonic() - begin
    subprocess.run([bench.VITALFEW, "daemon", "epoch", "--db", database], check=True, stdout=subprocess.DEVNULL)
    bench.stop(daemon)
    for opened in database.glob("epoch=*/open=*"):  # what was counted while the daemon ended
        shutil.rmtree(opened)
    return seconds


def asked(database, sql):
    command = [bench.VITALFEW, "query", "--db", database, "--json", sql]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)[0]["n"]


def week():
    if not WEEK.exists():
        print(f"\nNo week: cargo build --release -p store --example week makes {WEEK}")
        return
    recorded, database = bench.TEMPORARY / "recorded", bench.TEMPORARY / "week"
    seconds = record_week(recorded)
    subprocess.run([WEEK, recorded, database, "7", "4"], check=True, stdout=subprocess.DEVNULL)
    sizes = {path: path.stat().st_size for path in database.rglob("*") if path.is_file()}
    size = sum(sizes.values())
    images = asked(database, "SELECT count(DISTINCT image) AS n FROM samples")
    rows = asked(database, "SELECT count(*) AS n FROM samples")
    samples = asked(database, "SELECT sum(samples) AS n FROM epochs")
    bench.title(f"A week of four busy CPUs at {bench.HERTZ} Hz, replayed from {seconds:.0f} s of {len(bench.CPUS)}")
    bench.head("images", "samples", "rows", "size", "goal", "")
    goal = bench.verdict(size, DISK_GOAL) if images >= IMAGES else f"**{IMAGES - images} images too few**"
    bench.row(f"{images:,}", f"{samples:,}", f"{rows:,}", f"{size / 2**20:.1f} MiB", f"≤ {DISK_GOAL >> 20} MiB", goal)
    top = "SELECT image, procedure, sum(count) AS n FROM samples GROUP BY 1, 2 ORDER BY n DESC LIMIT 20"
    bench.title("The top procedures of that week")
    bench.head("command", "CPU", "wall", "goal", "")
    for name, command in (
        ("query", [bench.VITALFEW, "query", "--db", database, top]),
        ("report", [bench.VITALFEW, "report", database, "--epoch", ".."]),
    ):
        found = sorted(bench.measured(*command)[:2] for _ in range(5))
        cpu, wall = found[len(found) // 2]
        bench.row(name, f"{cpu:.2f} s", f"{wall:.2f} s", f"≤ {QUERY_GOAL} s", bench.verdict(wall, QUERY_GOAL))


if __name__ == "__main__":
    cost()
    week()
