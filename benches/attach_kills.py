"""attach_kills.py VITALFEW [KILLS]: kills vitalfew (SIGKILL) while it attaches to a program, at random moments; does the program go on?

`running` of tests/programs/causal, which counts the EINTRs that it sees, and redis-server, which must answer a request afterwards. A kill
counts as one of a held thread if the kernel named vitalfew as the tracer of one just before. A program that ended is started anew.
"""

import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
VITALFEW = sys.argv[1]
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 200
PORT = 7793


class Running:
    """Two threads at a barrier, and one in `epoll_wait` with a time-out."""

    name = "running"

    def __init__(self, where):
        program = where / "running"
        source = HERE.parent / "tests/programs/causal/running.c"
        if not program.exists():
            subprocess.run(["cc", "-O2", "-g", "-pthread", source, "-o", program], check=True)
        self.process = subprocess.Popen([program, "20"], stdout=subprocess.PIPE, text=True)
        time.sleep(0.1)

    def works(self):
        return self.process.poll() is None

    def end(self):
        self.process.terminate()
        return self.process.communicate(timeout=10)[0].strip()


class Redis:
    """A server whose main thread waits in `epoll_wait`."""

    name = "redis-server"

    def __init__(self, _):
        command = ["redis-server", "--port", str(PORT), "--save", ""]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        time.sleep(0.3)

    def works(self):
        try:
            with socket.create_connection(("127.0.0.1", PORT), timeout=5) as connection:
                connection.sendall(b"INCR kills\r\nSUBSTR 0123456789 3 5\r\n")
                return connection.recv(64) != b""
        except OSError:
            return False

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=10)
        return ""


def tracer_of(pid):
    """Which thread of a process is held, and by whom."""
    for status in pathlib.Path(f"/proc/{pid}/task").glob("*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        tracer = text.split("TracerPid:")[1].split()[0]
        if tracer != "0":
            return int(tracer)
    return 0


def kill_once(pid, profile):
    """Attaches, kills at a random moment from when a thread is held; returns whether it was at the end."""
    command = [VITALFEW, "causal", "run", "-q", "-p", str(pid), "--for", "5s", "--by", "function", "--progress", "syscall:epoll_wait", "-o", profile]
    vitalfew = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    limit = time.monotonic() + 10
    while vitalfew.poll() is None and tracer_of(pid) == 0 and time.monotonic() < limit:
        pass
    time.sleep(random.choice([0, random.uniform(0, 0.0005), random.uniform(0, 0.005), random.uniform(0, 0.05)]))
    held = tracer_of(pid) == vitalfew.pid
    vitalfew.kill()
    vitalfew.wait()
    # The thread of the runtime, if it is there already, leaves.
    time.sleep(0.1)
    return held


def main():
    random.seed(1)
    print("| program | kills | of them of a held thread | the program ended or hung | |\n| --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as where:
        where = pathlib.Path(where)
        for kind in (Running, Redis):
            program, held, harmed, harmed_held = kind(where), 0, 0, 0
            for _ in range(KILLS):
                was_held = kill_once(program.process.pid, where / "profile")
                held += was_held
                if not program.works():
                    harmed, harmed_held = harmed + 1, harmed_held + was_held
                    program.process.kill()
                    program.process.wait()
                    program = kind(where)
            said = program.end()
            print(f"| {kind.name} | {KILLS} | {held} | {harmed} ({harmed_held} held) | {said} |", flush=True)


main()
