"""attach.py VITALFEW [CYCLES]: attaches to running programs again and again, and asks whether they are as they were.

`running` of tests/programs/causal (which counts the EINTRs that it sees), redis-server, memcached and python3 with threads, each CYCLES
(default 20) times for 0.2 s. Afterwards the program must live, have as many descriptors as before, and no thread of ours.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
VITALFEW = sys.argv[1]
CYCLES = int(sys.argv[2]) if len(sys.argv) > 2 else 20
PYTHON = """
import threading, time
def work():
    while True:
        sum(range(1000))
threading.Thread(target=work, daemon=True).start()
while True:
    time.sleep(0.01)
"""


def targets(where):
    running = where / "running"
    source = HERE.parent / "tests/programs/causal/running.c"
    subprocess.run(["cc", "-O2", "-g", "-pthread", source, "-o", running], check=True)
    yield "running", [running, "20"], "function:serve"
    yield "redis-server", ["redis-server", "--port", "7791", "--save", ""], "syscall:epoll_wait"
    yield "memcached", ["memcached", "-t", "2", "-l", "127.0.0.1", "-p", "7792", "-U", "0", "-u", "nobody"], "syscall:epoll_wait"
    yield "python3", [os.path.realpath("/usr/bin/python3"), "-c", PYTHON], "syscall:clock_nanosleep"


def state(pid):
    names = [name.read_text().strip() for name in pathlib.Path(f"/proc/{pid}/task").glob("*/comm")]
    return len(os.listdir(f"/proc/{pid}/fd")), names.count("vitalfew")


def cycles(pid, point, profile):
    failures = []
    for _ in range(CYCLES):
        command = [VITALFEW, "causal", "run", "-q", "-p", str(pid), "--for", "200ms", "--by", "function", "--progress", point, "-o", profile]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            failures.append(done.stderr.strip())
    return failures


def main():
    with tempfile.TemporaryDirectory() as where:
        where = pathlib.Path(where)
        print("| program | cycles | refused or failed | as before | |\n| --- | --- | --- | --- | --- |")
        for name, command, point in targets(where):
            try:
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            except FileNotFoundError:
                print(f"| {name} | not installed | | | |")
                continue
            time.sleep(1)
            before = state(process.pid)
            failures = cycles(process.pid, point, where / "profile")
            same = process.poll() is None and state(process.pid) == before
            process.send_signal(signal.SIGTERM)
            said, _ = process.communicate(timeout=10)
            more = said.strip().splitlines()[-1] if name == "running" else "; ".join(set(failures))
            print(f"| {name} | {CYCLES} | {len(failures)} | {'yes' if same else 'no'} | {more} |", flush=True)


main()
