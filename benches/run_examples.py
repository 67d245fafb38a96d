#!/usr/bin/env python3
"""run_examples.py VITALFEW: what does `run` say of programs that nobody here wrote, and what does a change made because of it gain?

For each: what is said, the change, what it gained in turns with the program as it was (medians of EXAMPLES_ROUNDS, 3), and whether that is within the bounds that were said.
EXAMPLES names some of them; programs are looked for on PATH and in EXAMPLES_DIR: what is not there is left out.
EXAMPLES_FOR (20s) is the time of a `run`.
"""

import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import time

from bench import TEMPORARY, VITALFEW, end, start, title

ROUNDS = int(os.environ.get("EXAMPLES_ROUNDS", "3"))
BUDGET = os.environ.get("EXAMPLES_FOR", "20s")
KEPT = pathlib.Path(os.environ.get("EXAMPLES_DIR", "/nowhere"))
SHOWN = int(os.environ.get("EXAMPLES_FINDINGS", "3"))
QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
RANDOM = random.Random(1)


class Program:
    """A command; `make` prepares its input and returns its words, those with the change, and both as they are shown."""

    def __init__(self, name, make, options=()):
        self.name, self.make, self.options = name, make, options

    def show(self):
        words, changed, shown, change = self.make()
        # With its files in memory, as it is measured afterwards.
        seconds(words)
        ask(["--for", BUDGET, *self.options, "--", *map(str, words)], f"vitalfew run -- {shown}")
        took = [(seconds(words), seconds(changed)) for _ in range(ROUNDS)]
        before, after = (statistics.median(times) for times in zip(*took))
        tell_gain(change, f"{before:.2f} s", f"{after:.2f} s", 1 - after / before)


class Server:
    """A server; `make` returns how it is started, and with the change, the load while it is asked, and what measures its requests a second."""

    def __init__(self, name, make):
        self.name, self.make = name, make

    def show(self):
        starts, load, rate, shown, change = self.make()
        server = start(*starts[0], **QUIET)
        time.sleep(2)
        pid = busiest_of(server.pid)
        loading = start(*load, **QUIET)
        time.sleep(2)
        ask(["--for", "20s", "-p", str(pid)], f"vitalfew run -p PID      # {shown}")
        end(loading)
        end(server)
        rates = [[], []]
        for _ in range(ROUNDS):
            for words, measured in zip(starts, rates):
                server = start(*words, **QUIET)
                time.sleep(2)
                measured.append(rate())
                end(server)
        before, after = map(statistics.median, rates)
        tell_gain(change, f"{before:,.0f}", f"{after:,.0f} requests a second", 1 - before / after)


def ask(options, shown):
    """Asks `run`, and prints its first findings as they are shown."""
    result = TEMPORARY / "result.json"
    subprocess.run([VITALFEW, "run", "-q", "-o", result, *options], check=False, stdin=subprocess.DEVNULL, **QUIET)
    text = subprocess.run([VITALFEW, "run", "--show", result], check=True, capture_output=True, text=True).stdout
    findings = re.split(r"\n(?=\d+  |\neverything else)", text)
    print(f"```\n$ {shown}")
    print("\n".join(part.strip("\n") for part in findings[: SHOWN + 1]).replace(str(TEMPORARY), "…"))
    print("```", flush=True)
    global claims
    claims = json.loads(result.read_text())["claims"]["list"]


def tell_gain(change, before, after, gain):
    bounds = [evidence["interval"] for claim in claims for evidence in claim["evidence"] if evidence["kind"] == "virtual_speedup"]
    inside = [number for number, (low, high) in enumerate(bounds, 1) if low <= gain <= high]
    print(f"{change}: {before}, {after}: {100 * gain:.0f} % shorter; within the bounds of findings {inside}", flush=True)


def seconds(words):
    begin = time.monotonic()
    subprocess.run([str(word) for word in words], check=True, stdin=subprocess.DEVNULL, **QUIET)
    return time.monotonic() - begin


def busiest_of(pid):
    """The process itself, or its only child, as of nginx's master."""
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return children[0] if children else pid


def found(name):
    """A program, here or on PATH."""
    kept = KEPT / name
    path = kept if kept.exists() else shutil.which(name)
    if not path:
        raise FileNotFoundError(name)
    return path


def words_of_text(count):
    known = [f"word{RANDOM.randrange(100_000):x}" for _ in range(20_000)]
    return "\n".join(" ".join(RANDOM.choices(known, k=3)) for _ in range(count)) + "\n"


def sort():
    lines = TEMPORARY / "lines"
    lines.write_text(words_of_text(1_200_000))
    command = ["sort", "--parallel=1", "-o", "/dev/null", lines]
    return ["env", "LC_ALL=en_US.UTF-8", *command], ["env", "LC_ALL=C", *command], "sort lines       # 1.2 million, LC_ALL=en_US.UTF-8", "`LC_ALL=C`"


def sqlite():
    inserts = "".join(f"INSERT INTO entries VALUES ({number}, 'entry {number}');\n" for number in range(1500))
    begin = "DROP TABLE IF EXISTS entries;\nCREATE TABLE entries (number INTEGER, name TEXT);\n"
    (TEMPORARY / "each.sql").write_text(begin + inserts)
    (TEMPORARY / "once.sql").write_text(begin + "BEGIN;\n" + inserts + "COMMIT;\n")
    words = [[found("sqlite3"), TEMPORARY / "entries.db", f".read {TEMPORARY}/{name}.sql"] for name in ("each", "once")]
    return *words, "sqlite3 entries.db '.read each.sql'       # 1,500 inserts", "one transaction"


def find():
    directory = TEMPORARY / "many"
    directory.mkdir()
    for number in range(1500):
        (directory / f"{number}.txt").write_text(f"{number * 7919}\n")
    command = ["find", directory, "-name", "*.txt", "-exec", "grep", "-l", "7", "{}"]
    return [*command, ";"], [*command, "+"], r"find many -name '*.txt' -exec grep -l 7 {} \;       # 1,500 files", "`-exec … +`"


def csvsort():
    rows = "".join(f"{number},{RANDOM.random():.6f},name {RANDOM.randrange(9999)},2024-{number % 12 + 1:02}-{number % 28 + 1:02}\n" for number in range(8_000))
    (TEMPORARY / "rows.csv").write_text("number,value,name,day\n" + rows)
    command = [found("venv/bin/csvsort"), "-c", "name", TEMPORARY / "rows.csv"]
    return command, [*command, "-I"], "csvsort -c name rows.csv       # 8,000 rows", "`-I` (no inference of types)"


def compiler():
    command = [found("cc"), "-c", "-o", TEMPORARY / "sqlite.o", found("sqlite3.c")]
    return [*command, "-O2"], [*command, "-O1"], "gcc -O2 -c sqlite3.c", "`-O1`"


def ripgrep():
    command = [found("rg"), "-c", "return", found("sources")]
    return [*command[:1], "--sort", "path", *command[1:]], command, "rg --sort path -c return sources", "without `--sort`"


def xz():
    # Of one size, whatever the sources.
    with open(TEMPORARY / "archive", "wb") as archive:
        tar = subprocess.Popen(["tar", "-C", found("sources"), "-c", "."], stdout=subprocess.PIPE)
        archive.write(tar.stdout.read(60_000_000))
        tar.stdout.close()
        tar.wait()
    command = ["xz", "-1", "-k", "-c", TEMPORARY / "archive"]
    return [*command[:1], "-T1", *command[1:]], [*command[:1], "-T2", *command[1:]], "xz -1 -T1 -c archive       # 60 MB of sources", "`-T2`"


def convert():
    picture = TEMPORARY / "picture.png"
    subprocess.run([found("convert-im6.q16"), "-size", "2400x2400", "plasma:fractal", "-seed", "1", "-attenuate", "0.5", "+noise", "gaussian", picture], check=True)
    command = [found("convert-im6.q16"), picture, "-resize", "70%"]
    fast = ["-define", "png:compression-level=1"]
    return [*command, TEMPORARY / "small.png"], [*command, *fast, TEMPORARY / "small.png"], "convert picture.png -resize 70% small.png", "`-define png:compression-level=1`"


def gron():
    rows = [{"number": number, "tags": [f"tag{RANDOM.randrange(99)}" for _ in range(5)], "at": {"x": RANDOM.random(), "y": RANDOM.random()}} for number in range(30_000)]
    (TEMPORARY / "rows.json").write_text(json.dumps(rows))
    command = [found("gron"), TEMPORARY / "rows.json"]
    return command, [*command[:1], "--no-sort", *command[1:]], "gron rows.json", "`--no-sort`"


def make():
    command = ["make", "-B", "-C", found("zstd/lib"), "libzstd.a", "ZSTD_LIB_COMPRESSION=0", "ZSTD_LIB_DICTBUILDER=0"]
    return command, [*command, "-j2"], "make -B -C zstd/lib libzstd.a ZSTD_LIB_COMPRESSION=0", "`-j2`"


def redis():
    def words(policy):
        return [found("redis-server"), "--port", "7399", "--save", "", "--dir", TEMPORARY, "--appendonly", "yes", "--appendfsync", policy]

    ask = ["redis-benchmark", "-p", "7399", "-t", "set", "-c", "50"]

    def rate():
        said = subprocess.run([*ask, "-n", "200000", "--csv"], check=True, capture_output=True, text=True).stdout
        return float(said.splitlines()[-1].split('","')[1])

    return [words("always"), words("everysec")], [*ask, "-n", "100000000"], rate, "redis-server, appendfsync always; redis-benchmark -t set", "`appendfsync everysec`"


def nginx():
    folder = TEMPORARY / "nginx"
    folder.mkdir()
    (folder / "page.html").write_text(words_of_text(10_000))

    def words(sendfile):
        settings = folder / f"nginx-{sendfile}.conf"
        settings.write_text(
            f"daemon off; worker_processes 1; pid {folder}/pid; error_log /dev/null; user root;\nevents {{}}\n"
            f"http {{ access_log off; sendfile {sendfile}; server {{ listen 7398; root {folder}; }} }}\n"
        )
        return [found("nginx"), "-c", settings]

    ask = ["ab", "-k", "-q", "-c", "8"]
    page = "http://127.0.0.1:7398/page.html"

    def rate():
        said = subprocess.run([*ask, "-n", "5000", page], check=True, capture_output=True, text=True).stdout
        return float(re.search(r"Requests per second: +([0-9.]+)", said)[1])

    return [words("off"), words("on")], [*ask, "-n", "10000000", page], rate, "an nginx worker with a file of 250 kB, asked by ab -c 8", "`sendfile on`"


def node():
    folder = TEMPORARY / "pages"
    folder.mkdir()
    (folder / "index.html").write_text("<p>hello\n" * 50)
    command = ["node", found("npm/node_modules/http-server/bin/http-server"), folder, "-p", "7397"]
    ask = ["node", found("npm/node_modules/autocannon/autocannon.js"), "-c", "20"]
    page = "http://127.0.0.1:7397/"

    def rate():
        said = subprocess.run([*ask, "-d", "5", "--json", page], check=True, capture_output=True, text=True).stdout
        return json.loads(said)["requests"]["average"]

    return [command, [*command, "-s"]], [*ask, "-d", "100", page], rate, "node http-server; autocannon -c 20", "`-s` (no log)"


EXAMPLES = [
    Program("sort", sort),
    Program("sqlite3", sqlite),
    Program("find", find),
    Program("csvsort", csvsort),
    Program("gcc", compiler),
    Program("rg", ripgrep),
    Program("xz", xz),
    Program("convert", convert),
    Program("gron", gron),
    Program("make", make),
    Server("redis-server", redis),
    Server("nginx", nginx),
    Server("http-server", node),
]


def main():
    asked = os.environ.get("EXAMPLES", "").split() or [example.name for example in EXAMPLES]
    for example in EXAMPLES:
        if example.name not in asked:
            continue
        title(example.name)
        try:
            example.show()
        except FileNotFoundError as missing:
            print(f"left out: there is no {missing}", flush=True)


main()
