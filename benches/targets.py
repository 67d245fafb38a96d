#!/usr/bin/env python3
"""Does a program do under vitalfew what it does alone? benches/targets.py VITALFEW [--runtime FILE] [--short] [--ways WAY,…] [NAME...]

Each program is run alone and by the eight ways in which vitalfew launches one. What it prints on standard output and its exit code
must be the same, or vitalfew must refuse it: exit code 125, nothing printed, the reason in one line. Prints a table in Markdown;
exits with 1 if a cell is neither. What is not installed is left out and named; without --short at least 40 must be there.
"""
import os
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.realpath(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "tests", "programs", "targets"))
LIBRARIES = f"/usr/lib/{os.uname().machine}-linux-gnu"
EVERYTHING = ["-f", "*", "-f", "libc!*", "-f", "libboost_context!*", "-f", "libgcc_s!*"]
WAYS = {
    "record": ["record", "-q"],
    "no stacks": ["record", "-q", "--no-stacks"],
    "dwarf": ["record", "-q", "--call-graph", "dwarf"],
    "bursts": ["record", "-q", "--path-bursts"],
    "off-cpu": ["record", "-q", "--off-cpu"],
    "causal": ["causal", "run", "-q", "--end-to-end", "--by", "function"],
    "interference": ["interference", "run", "-q", *EVERYTHING],
    "every 2nd": ["interference", "run", "-q", "--every", "2", *EVERYTHING],
}
REFUSED = 125
SECONDS = 120


def preloaded(library):
    return {"LD_PRELOAD": f"{LIBRARIES}/{library}"}


def c(source, *flags, compiler="cc"):
    return [compiler, "-O2", "-g", "-pthread", os.path.join(HERE, source), *flags]


class Program:
    """How it is built (None: it is installed), called, and what its environment has; whether it is in the short selection."""

    def __init__(self, name, build=None, call=(), environment=None, text=None, short=False):
        self.name, self.build, self.call = name, build, list(call)
        self.environment, self.text, self.short = environment or {}, text, short


def allocators():
    for name, library in [
        ("jemalloc", "libjemalloc.so.2"),
        ("tcmalloc", "libtcmalloc.so.4"),
        ("tcmalloc_minimal", "libtcmalloc_minimal.so.4"),
        ("mimalloc", "libmimalloc.so.2"),
    ]:
        link = ["-Wl,--no-as-needed", f"-l:{library}"]
        yield Program(f"churn, linked with {name}", c("churn.c", *link), short=True)
        yield Program(f"churn, {name} preloaded", c("churn.c"), environment=preloaded(library), short=name == "jemalloc")


def made_here():
    yield Program("churn", c("churn.c"))
    yield Program("churn, static", c("churn.c", "-static"), short=True)
    yield Program("churn, static PIE", c("churn.c", "-static-pie"))
    yield Program("churn, no PIE", c("churn.c", "-no-pie"))
    yield Program("churn, musl", c("churn.c", compiler="musl-gcc"), short=True)
    yield Program("churn, musl static", c("churn.c", "-static", compiler="musl-gcc"))
    yield Program("churn, 32-bit", c("churn.c", "-m32"))
    yield Program("churn, clang", c("churn.c", compiler="clang"))
    yield Program("churn, stripped", c("churn.c", "-s"))
    yield Program("churn, -pg", c("churn.c", "-pg"))
    yield Program("churn, address sanitizer", c("churn.c", "-fsanitize=address"), short=True)
    yield Program("ucontext", c("ucontext.c"), short=True)
    yield Program("ucontext, stacks in main", c("ucontext.c"), call=["own"], short=True)
    yield Program("assembly switches stacks", c("switch.c"), short=True)
    yield Program("Boost.Context", c("fibers.cc", "-lboost_context", compiler="c++"), short=True)
    yield Program("boehm-gc", c("collected.c", "-lgc"), short=True)
    yield Program("exceptions", c("thrown.cc", compiler="c++"))
    static = ["-static-libgcc", "-static-libstdc++"]
    yield Program("exceptions, static libgcc", c("thrown.cc", *static, compiler="c++"), short=True)
    yield Program("exceptions, static libgcc, stripped", c("thrown.cc", "-s", *static, compiler="c++"), short=True)
    yield Program("long jumps, vfork, fork, cancellation", c("jumps.c"), short=True)
    yield Program("closes all, seccomp, raw clone", c("corners.c"), short=True)
    yield Program("Rust panics", ["rustc", "-g", "-O", os.path.join(HERE, "panics.rs")])
    yield Program("Go", ["go", "build", os.path.join(HERE, "goroutines.go")])
    yield Program("Go, cgo", ["go", "build", os.path.join(HERE, "cgo.go")])


def installed():
    sums = "import hashlib,threading;t=[threading.Thread(target=hashlib.md5,args=(b'x'*99999,)) for _ in range(9)];[x.start() for x in t];[x.join() for x in t];print(sum(i*i for i in range(200000)))"
    yield Program("redis-server", call=["redis-server", "--version"], short=True)
    yield Program("python3", call=["python3", "-c", sums])
    yield Program(
        "python3, greenlet",
        call=["/usr/bin/python3", os.path.join(HERE, "greenlets.py")],
    )
    yield Program("perl", call=["perl", "-e", "$s+=$_*$_ for 1..300000; eval { die 1 }; print $s; exit 3"])
    yield Program("ruby", call=["ruby", "-e", "s=0; 99999.times{|n| s+=catch(:x){throw :x,n}}; f=Fiber.new{Fiber.yield 1}; puts s+f.resume"])
    yield Program("lua", call=["lua5.4", "-e", "local c=coroutine.wrap(function() for i=1,9999 do coroutine.yield(i) end end) local s=0 for i=1,9999 do s=s+c() pcall(error,1) end print(s)"])
    yield Program("php", call=["php", "-r", "function g(){for($i=0;$i<99999;$i++)yield $i;}$f=new Fiber(fn()=>Fiber::suspend(7));echo array_sum(iterator_to_array(g()))+$f->start();"])
    yield Program("node", call=["node", "-e", "let s=0;for(let i=0;i<1e6;i++)s+=i;console.log(s)"])
    yield Program("guile", call=["guile", "-c", "(display (let l ((i 0)(s 0)) (if (< i 99999) (l (+ i 1) (+ s i)) s)))"])
    yield Program("gawk", call=["awk", "BEGIN { for (n = 0; n < 300000; n++) s += n; print s; exit 4 }"])
    yield Program("sqlite3", call=["sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<99999) select sum(x) from c"])
    yield Program("bash", call=["bash", "-c", "s=0; for n in {1..2000}; do s=$((s+n)); done; echo $(echo $s | cat); exit 5"])
    yield Program("dash", call=["dash", "-c", "seq 1000 | sort -rn | head -n 3; exit 6"])
    yield Program("sort", call=["sort", "-n"], text="".join(f"{n * 7919 % 10007}\n" for n in range(20000)))
    yield Program("grep", call=["grep", "-c", "9"], text="".join(f"{n}\n" for n in range(20000)))
    yield Program("gzip", call=["gzip", "-nc"], text="vital few " * 50000)
    yield Program("xz", call=["xz", "-T2", "-c"], text="vital few " * 50000)
    yield Program("zstd", call=["zstd", "-T2", "-qc"], text="vital few " * 50000)
    yield Program("openssl", call=["openssl", "sha256"], text="vital few " * 50000)
    yield Program("cc", call=["cc", "-O1", "-S", "-o", "-", os.path.join(HERE, "churn.c")])
    yield Program("clang", call=["clang", "-O1", "-S", "-o", "-", os.path.join(HERE, "churn.c")])
    yield Program("make", call=["make", "-f", "-"], text="all:\n\t@echo made\n\t@exit 0\n")
    yield Program("git", call=["git", "--version"])
    yield Program("unshare, another mount namespace", call=["unshare", "-m", "sh", "-c", "echo inside; exit 7"])
    yield Program("chroot, another root", call=["chroot", "/", "sh", "-c", "echo inside; exit 8"])
    yield Program("su, set-uid root", call=["su", "--version"])
    yield Program("true", call=["true"])


class Table:
    def __init__(self, vitalfew, runtime, directory):
        self.vitalfew, self.runtime, self.directory = vitalfew, runtime, directory
        self.reasons, self.wrong, self.missing = [], [], []

    def start(self, program, number):
        """The command, built; None if it cannot be."""
        if not program.build:
            return program.call if shutil.which(program.call[0]) else None
        if not shutil.which(program.build[0]):
            return None
        path = os.path.join(self.directory, f"program{number}")
        source = [part for part in program.build if part.startswith(HERE)]
        rest = [part for part in program.build if not part.startswith(HERE)]
        # Sources stand before libraries.
        at = 2 if rest[0] == "go" else 1
        command = [*rest[:at], "-o", path, *source, *rest[at:]]
        environment = {**os.environ, "GOCACHE": os.path.join(self.directory, "go"), "GO111MODULE": "off"}
        built = subprocess.run(command, capture_output=True, text=True, env=environment)
        return [path, *program.call] if built.returncode == 0 else None

    def run(self, command, program):
        environment = {**os.environ, **program.environment, "VITALFEW_DB": os.path.join(self.directory, "db")}
        text = (program.text or "").encode()
        try:
            done = subprocess.run(command, capture_output=True, input=text, env=environment, cwd=self.directory, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "no end", b"", ""
        return done.returncode, done.stdout, done.stderr.decode(errors="replace").strip()

    def cell(self, way, options, program, command, alone):
        output = os.path.join(self.directory, "output")
        if os.path.isdir(output):
            shutil.rmtree(output)
        elif os.path.exists(output):
            os.remove(output)
        runtime = ["--runtime", self.runtime] if self.runtime and options[0] != "record" else []
        code, stdout, said = self.run([self.vitalfew, *options, *runtime, "-o", output, "--", *command], program)
        if (code, stdout) == alone[:2]:
            return "same"
        lines = [line for line in said.splitlines() if line.startswith("vitalfew: ")]
        if code == REFUSED and not stdout and lines:
            self.reasons.append((program.name, way, lines[-1].removeprefix("vitalfew: ")))
            return "refused"
        self.wrong.append(f"{program.name}, {way}: alone {alone[0]} {alone[1][:60]!r}, now {code} {stdout[:60]!r}: {said[-400:]}")
        return "**WRONG**"

    def row(self, program, number):
        command = self.start(program, number)
        if command is None:
            self.missing.append(program.name)
            return False
        alone = self.run(command, program)
        cells = [self.cell(way, options, program, command, alone) for way, options in WAYS.items()]
        print(f"| {program.name} | {alone[0]} | " + " | ".join(cells) + " |", flush=True)
        return True


def main():
    arguments = sys.argv[1:]
    short = "--short" in arguments
    runtime = None
    if "--runtime" in arguments:
        at = arguments.index("--runtime")
        runtime = os.path.realpath(arguments[at + 1])
        del arguments[at : at + 2]
    if "--ways" in arguments:
        at = arguments.index("--ways")
        wanted = arguments[at + 1].split(",")
        for way in set(WAYS) - set(wanted):
            del WAYS[way]
        del arguments[at : at + 2]
    arguments = [argument for argument in arguments if argument != "--short"]
    vitalfew, names = os.path.realpath(arguments[0]), arguments[1:]
    ways = {"causal", "interference", "every 2nd"}
    if short:
        for way in set(WAYS) - ways:
            del WAYS[way]
    programs = [*allocators(), *made_here(), *installed()]
    if short:
        programs = [program for program in programs if program.short]
    if names:
        programs = [program for program in programs if any(name in program.name for name in names)]
    print("| program | exit code | " + " | ".join(WAYS) + " |\n|---|---|" + "---|" * len(WAYS))
    with tempfile.TemporaryDirectory() as directory:
        table = Table(vitalfew, runtime, directory)
        rows = sum(table.row(program, number) for number, program in enumerate(programs))
    print()
    for name, way, reason in table.reasons:
        print(f"- {name}, {way}: {reason.replace(directory + '/', '')}")
    if table.missing:
        print(f"\nNot installed or not built here: {', '.join(table.missing)}.")
    for wrong in table.wrong:
        print(wrong, file=sys.stderr)
    too_few = rows < 40 and not short and not names or short and bool(table.missing)
    if too_few:
        print(f"only {rows} programs are there; missing: {table.missing}", file=sys.stderr)
    sys.exit(1 if table.wrong or too_few else 0)


main()
