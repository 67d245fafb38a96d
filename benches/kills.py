#!/usr/bin/env python3
"""Kills a daemon with SIGKILL at random moments under load, and accounts for every sample.

    benches/kills.py VITALFEW [KILLS [merge]]

Without `merge` every drain stays a file of its own, so that it can be seen that each drain of each
collector is there exactly once; with it, parts are merged and epochs closed while daemons die.
Needs root, for BPF. Prints what it found; exit code 1 if anything is lost or damaged.
"""
import json, os, random, re, signal, subprocess, sys, tempfile, time

vitalfew = os.path.abspath(sys.argv[1])
kills = int(sys.argv[2]) if len(sys.argv) > 2 else 200
merging = len(sys.argv) > 3
HERTZ = 1000


def busy_seconds():
    """CPU time of the machine that was not idle (nor stolen)."""
    fields = [int(f) for f in open("/proc/stat").readline().split()[1:9]]
    return (sum(fields) - fields[3] - fields[4] - fields[7]) / os.sysconf("SC_CLK_TCK")


def run(*args):
    return json.loads(subprocess.run([vitalfew, *args], check=True, capture_output=True).stdout)


def main():
    directory = tempfile.TemporaryDirectory()
    db = os.path.join(directory.name, "db")
    command = [vitalfew, "daemon", "run", "--db", db, "-F", str(HERTZ), "--budget", "100", "--interval", "150ms"]
    command += ["--merge", "400ms", "--epoch", "3s"] if merging else ["--merge", "1h"]
    load = [subprocess.Popen(["sh", "-c", "while :; do sh -c ':'; done"]) for _ in range(os.cpu_count())]
    talk = open(os.path.join(directory.name, "talk"), "w+")
    random.seed(1)
    daemon, began = None, None
    try:
        for kill in range(kills + 1):
            daemon = subprocess.Popen(command, stderr=talk)
            if kill == 0:
                socket = None
                while not socket:
                    found = [os.path.join(d, f) for d, _, fs in os.walk(db) for f in fs if f == "socket"]
                    socket = found[0] if found else time.sleep(0.05)
                time.sleep(0.2)
                began, clock = busy_seconds(), time.monotonic()
            if kill < kills:
                time.sleep(random.uniform(0.02, 2.0))
                daemon.send_signal(signal.SIGKILL)
                daemon.wait()
                if random.random() < 0.3:
                    time.sleep(random.uniform(0, 0.3))  # nobody there
            else:
                for _ in range(600):  # until it answers
                    asked = subprocess.run([vitalfew, "daemon", "status", "--db", db], capture_output=True)
                    if asked.returncode == 0 or daemon.poll() is not None:
                        break
                    time.sleep(0.1)
                if asked.returncode:
                    talk.seek(0)
                    sys.exit("the last daemon does not answer:\n" + talk.read()[-2000:])
                daemon.send_signal(signal.SIGTERM)
                busy, elapsed = busy_seconds() - began, time.monotonic() - clock
                assert daemon.wait(timeout=60) == 0, "the last daemon failed"
    finally:
        for process in load + [daemon]:
            process.kill()
            process.wait()
    talk.seek(0)
    talk = talk.read()
    usual = ("collecting ", "left the collector")
    bad = [line for line in talk.splitlines() if not line.removeprefix("vitalfew: ").startswith(usual)]
    sums = run("query", "--db", db, "--json",
               "SELECT sum(taken) t, sum(stored) s, sum(dropped) d FROM events")[0]
    counted = run("query", "--db", db, "--json", "SELECT sum(count) n FROM samples")[0]["n"]
    threads = run("query", "--db", db, "--json", "SELECT sum(count) n FROM threads")[0]["n"]
    epochs = run("epochs", "--db", db, "--json")["epochs"]
    damaged = [e for e in epochs if "error" in e and "nothing was added" not in e["error"]]
    gaps = []
    if not merging:
        drains = {}
        for _, _, files in os.walk(db):
            for file in files:
                part = re.match(r"(\d{20})\.(\d{10})-(\d{20})\.(\d{10})\.vf$", file)
                if part:
                    drains.setdefault(part[1], []).append(int(part[2]))
        for collector, numbers in drains.items():
            numbers.sort()
            if numbers != list(range(numbers[0], numbers[-1] + 1)) or numbers[0] != 1:
                gaps.append((collector, numbers))
        print(f"{len(drains)} collectors, {sum(map(len, drains.values()))} drains, each once")
    expected = busy * HERTZ
    print(f"{kills} kills: {sums['t']} samples taken, {sums['s']} stored, {sums['d']} dropped; {counted} in samples, {threads} in threads")
    print(f"{len(epochs)} epochs, {len(damaged)} damaged; {100 * sums['t'] / expected:.1f} % of {expected:.0f} expected by the busy time, "
          f"{sums['t'] / HERTZ / elapsed:.2f} CPUs for {elapsed:.0f} s")
    ok = sums["t"] == sums["s"] + sums["d"] and counted == sums["s"] == threads and not damaged and not gaps and not bad
    for line in bad + [str(gap) for gap in gaps] + [str(e) for e in damaged]:
        print("BAD:", line)
    sys.exit(0 if ok else 1)


main()
