"""attach.py VITALFEW [CYCLES [PROGRAM]…]: attaches to running programs under load again and again, and asks whether they are as they were.

`running` of tests/programs/causal (which counts the EINTRs that it sees), redis-server and memcached with clients, threads that insert with
SQLite, python3 with threads, and without hooks the static `running` of musl's and a Go program, each CYCLES (default 20) times for 0.1 s. For tracing the last two must be refused.
Afterwards the program must live, have as many descriptors as before, and no thread of ours. A pause is from when a thread is told to
stop until it is let go (the kernel's trace of ptrace calls). `epoll_wait failed` counts what the C library's `epoll_wait` of the program returned
(a probe at its return): an EINTR that the program sees.

ATTACH_COMMAND=interference attaches for tracing.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).parent
VITALFEW = sys.argv[1]
CYCLES = int(sys.argv[2]) if len(sys.argv) > 2 else 20
CHOSEN = sys.argv[3:]
TRACED = os.environ.get("ATTACH_COMMAND") == "interference"
TRACE = pathlib.Path("/sys/kernel/tracing/instances/vitalfew-attach")
PTRACE = "syscalls/sys_enter_ptrace"
PROBE = "vitalfew_attach/epoll_wait"
PROBES = pathlib.Path("/sys/kernel/tracing/uprobe_events")
PYTHON = """
import threading, time
def work():
    while True:
        sum(range(1000))
threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(0.01)
"""
INSERTS = """
import sqlite3, sys, threading, time
def work(number):
    connection = sqlite3.connect(f"{sys.argv[1]}/{number}.db", check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    for at in range(1 << 40):
        connection.execute("INSERT OR REPLACE INTO t VALUES (?, ?)", (at % 1000, str(at)))
        if at % 100 == 0:
            connection.commit()
for number in range(2):
    threading.Thread(target=work, args=(number,), daemon=True).start()
while True:
    time.sleep(0.01)
"""
def asked(port, request):
    """A client that asks for an answer again and again; returns how many it got, and how often it failed."""
    count = [0, 0]

    def ask():
        while count is not None and not stop.is_set():
            try:
                with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                    while not stop.is_set():
                        connection.sendall(request)
                        if not connection.recv(4096):
                            break
                        count[0] += 1
            except OSError:
                count[1] += not stop.is_set()
                time.sleep(0.05)

    stop = threading.Event()
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()

    def end():
        stop.set()
        thread.join(10)
        return f"{count[0]} answers, {count[1]} failed"

    return end


def loaded(command):
    """A load generator that is run again and again."""
    stop = threading.Event()
    runs = []

    def run():
        while not stop.is_set():
            runs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
            runs[-1].wait()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def end():
        stop.set()
        while thread.is_alive():
            for process in runs[-1:]:
                process.terminate()
            thread.join(0.1)

    return end


def targets(where):
    """Name, command, progress point, function to trace, and loads."""
    running = where / "running"
    source = HERE.parent / "tests/programs/causal/running.c"
    subprocess.run(["cc", "-O2", "-g", "-pthread", source, "-o", running], check=True)
    yield "running", [running, "20"], "function:serve", "serve", []
    redis = ["redis-benchmark", "-p", "7791", "-c", "4", "-n", "100000", "-q"]
    client = lambda port, request: lambda: asked(port, request)
    yield "redis-server", ["redis-server", "--port", "7791", "--save", ""], "syscall:epoll_wait", "write", [client(7791, b"INCR x\r\n"), lambda: loaded(redis)]
    memcached = ["memcached", "-t", "2", "-l", "127.0.0.1", "-p", "7792", "-U", "0", "-u", "nobody"]
    slap = ["memcslap", "--servers=127.0.0.1:7792", "--concurrency=2", "--execute-number=20000"]
    yield "memcached", memcached, "syscall:epoll_wait", "sendmsg", [client(7792, b"incr x 1\r\n"), lambda: loaded(slap)]
    python = os.path.realpath(subprocess.run(["python3", "-c", "import sys; print(sys.executable)"], capture_output=True, text=True).stdout.strip())
    yield "SQLite, two threads", [python, "-c", INSERTS, where], "syscall:pwrite64", "sqlite3_step", []
    yield "python3, two threads", [python, "-c", PYTHON], "syscall:clock_nanosleep", "PyObject_Malloc", []


def static(where):
    """Programs that nothing can be loaded into."""
    programs = HERE.parent / "tests/programs/causal"
    go = ["go", "build", "-o", where / "go", "knob.go", "programs.go", "held_out.go"]
    if subprocess.run(go, cwd=programs / "go", env={**os.environ, "CGO_ENABLED": "0"}).returncode == 0:
        yield "go, static", [where / "go", "pipeline", "none", "0", "100000"], "function:main.progress", "main.progress", []
    musl = ["musl-gcc", "-static", "-O2", "-g", "-pthread", programs / "running.c", "-o", where / "musl"]
    if subprocess.run(musl).returncode == 0:
        yield "musl, static", [where / "musl", "20"], "function:serve", "serve", []


def state(pid):
    names = [name.read_text().strip() for name in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
    return len(os.listdir(f"/proc/{pid}/fd")), names.count("vitalfew")


def attached(pid, point, function, profile):
    command = [VITALFEW, "causal", "run", "-q", "-p", str(pid), "--for", "100ms", "--by", "function", "--progress", point, "-o", profile]
    if TRACED:
        command = [VITALFEW, "interference", "run", "-q", "-p", str(pid), "--for", "100ms", "-f", function, "-o", profile]
    done = subprocess.run(command, capture_output=True, text=True)
    return done.stderr.strip() if done.returncode != 0 else None


def epoll_wait_at():
    """The C library's file, and where in it the function is."""
    maps = pathlib.Path("/proc/self/maps").read_text()
    library = re.search(r"\S+/libc\.so\.6", maps)[0]
    symbols = subprocess.run(["readelf", "-W", "--dyn-syms", library], capture_output=True, text=True).stdout
    return library, int(re.search(r"(\w+) +\d+ FUNC .* epoll_wait@", symbols)[1], 16)


def change_probes(line):
    # Without truncating it, which would end everybody's.
    file = os.open(PROBES, os.O_WRONLY | os.O_APPEND)
    os.write(file, f"{line}\n".encode())
    os.close(file)


def begin_trace():
    library, at = epoll_wait_at()
    if TRACE.exists():
        # Of a measurement that was killed.
        TRACE.rmdir()
        change_probes(f"-:{PROBE}")
    change_probes(f"r:{PROBE} {library}:{at:#x} failed=$retval:s32")
    TRACE.mkdir(exist_ok=True)
    (TRACE / "buffer_size_kb").write_text("16384")
    (TRACE / "trace").write_text("")
    (TRACE / f"events/{PROBE}/filter").write_text("failed == -1")
    for event in (PTRACE, PROBE):
        (TRACE / f"events/{event}/enable").write_text("1")


def end_trace(pid):
    """Seconds from each interrupt of a thread until it was let go, and how often the program saw epoll_wait fail."""
    for event in (PTRACE, PROBE):
        (TRACE / f"events/{event}/enable").write_text("0")
    threads = {int(thread) for thread in os.listdir(f"/proc/{pid}/task")}
    failed = re.findall(r"-(\d+) +\[\d+\].* failed=-1", (TRACE / "trace").read_text())
    failures = sum(int(thread) in threads for thread in failed)
    line = re.compile(r"\s(\d+\.\d+): sys_ptrace\(request: (\w+), pid: (\w+)")
    held, times = {}, []
    for match in map(line.search, (TRACE / "trace").read_text().splitlines()):
        if not match:
            continue
        at, request, pid = float(match[1]), int(match[2], 16), match[3]
        if request == 0x4207:
            held.setdefault(pid, at)
        elif request == 0x11 and pid in held:
            times.append(at - held.pop(pid))
    TRACE.rmdir()
    change_probes(f"-:{PROBE}")
    return sorted(times), failures


def quantile(times, part):
    return f"{times[min(int(len(times) * part), len(times) - 1)] * 1e3:.2f}" if times else ""


def main():
    with tempfile.TemporaryDirectory() as where:
        where = pathlib.Path(where)
        print("| program | cycles | refused or failed | as before | pauses | median, p99, longest in ms | |\n| --- | --- | --- | --- | --- | --- | --- |")
        for name, command, point, function, loads in [*targets(where), *([] if TRACED else static(where))]:
            if CHOSEN and name.split()[0].strip(",") not in CHOSEN:
                continue
            try:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            except FileNotFoundError:
                print(f"| {name} | not installed | | | | | |")
                continue
            time.sleep(1)
            # The first one leaves the library there.
            first = attached(process.pid, point, function, where / "profile")
            before = state(process.pid)
            ends = [load() for load in loads]
            begin_trace()
            failures = [failure for _ in range(CYCLES) if (failure := attached(process.pid, point, function, where / "profile"))]
            times, failed = end_trace(process.pid)
            notes = [f"epoll_wait failed {failed} times"] + [note for end in ends if (note := end())]
            time.sleep(1)
            after = state(process.pid) if process.poll() is None else None
            same = first is None and after == before
            notes += [] if same else [f"{before} before, {after} after"]
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=10)
            notes += [said.strip().splitlines()[-1]] if name in ("running", "musl, static") else []
            notes += sorted(set(failures + ([first] if first else [])))
            shown = ", ".join(quantile(times, part) for part in (0.5, 0.99, 1))
            print(f"| {name} | {CYCLES} | {len(failures)} | {'yes' if same else 'no'} | {len(times)} | {shown} | {'; '.join(notes)} |", flush=True)
        for name, command, _, function, _ in static(where) if TRACED else []:
            if CHOSEN and name.split()[0].strip(",") not in CHOSEN:
                continue
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            time.sleep(0.2)
            reason = attached(process.pid, "", function, where / "profile")
            process.kill()
            process.wait()
            print(f"| {name} | 1 | {int(reason is not None)} | | | | {reason} |", flush=True)


main()
