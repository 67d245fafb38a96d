#!/usr/bin/env python3
"""Does `vitalfew diff` find a doubled function, and nothing where nothing changed?

    benches/pairs.py VITALFEW [pairs|same]

Pairs: twenty pairs of programs of which one function does twice the work in the second, in three kinds:
rebuilt in place, in two build directories (or versions), the same binary with another argument. For each:
is the function first with q < 0.05, and does the interval of its factor hold the truth? Same: a
hundred pairs of recordings of one program; how many claim any change?

Priors and thresholds were tuned on the halves marked so; the others were written afterwards. A program
whose compiler or interpreter is missing is named and counted as failed. PAIRS_REPEAT repeats the pairs;
PAIRS_TIMES is a factor for the running time of compiled programs and the Python ones.
"""

import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

from bench import TEMPORARY, VITALFEW

REPEAT = int(os.environ.get("PAIRS_REPEAT", "1"))
# One half only, to take turns with others on a machine: tuned or held_out.
HALF = os.environ.get("PAIRS_HALF", "")
REGISTRY = os.path.expanduser("~/.cargo/registry/src/*/")

# Functions and their work; `lookup` is the one that doubles, by K or by the argument.
WORK = {"parse": 5, "lookup": 6, "render": 7, "sort_all": 3, "check": 2, "store": 6, "load": 1, "walk": 4}
UNIT = 9000
# About half a second of CPU time; PAIRS_TIMES=4 makes it two.
TIMES = int(os.environ.get("PAIRS_TIMES", "1"))
ROUNDS = 1400 * TIMES


def c_source(unit=UNIT, work=WORK, qualifier="__attribute__((noinline)) static"):
    bodies = "".join(
        f"{qualifier} void {name}(unsigned long n){{for(unsigned long i=0;i<n;i++)sink+=(i^{index})*i;}}\n"
        for index, name in enumerate(work)
    )
    calls = "".join(
        f"{name}({amount * unit}UL{'*k' if name == 'lookup' else ''});" for name, amount in work.items()
    )
    return f"""#include <stdlib.h>
#ifndef K
#define K 1
#endif
volatile unsigned long sink;
{bodies}
int main(int argc,char**argv){{unsigned long k=argc>1?strtoul(argv[1],0,10):K;
for(int r=0;r<{ROUNDS};r++){{{calls}}}return 0;}}
"""


def cpp_source():
    methods = "".join(
        f"template<class T> __attribute__((noinline)) void Engine<T>::{name}(unsigned long n)"
        f"{{for(unsigned long i=0;i<n;i++)sum=sum+(i^{index})*i;}}\n"
        for index, name in enumerate(WORK)
    )
    calls = "".join(
        f"e.{name}({amount * UNIT}UL{'*k' if name == 'lookup' else ''});" for name, amount in WORK.items()
    )
    declared = "".join(f"void {name}(unsigned long);" for name in WORK)
    return f"""#include <cstdlib>
#ifndef K
#define K 1
#endif
namespace app {{ template<class T> struct Engine {{ volatile T sum=0; {declared} }};
{methods} }}
int main(int argc,char**argv){{unsigned long k=argc>1?strtoul(argv[1],0,10):K; app::Engine<unsigned long> e;
for(int r=0;r<{ROUNDS};r++){{{calls}}}return 0;}}
"""


def rust_source(k):
    bodies = "".join(
        f"#[inline(never)] pub fn {name}(n:u64)->u64{{let mut s=0u64;for i in 0..n{{s=std::hint::black_box(s.wrapping_add((i^{index})*i));}}s}}\n"
        for index, name in enumerate(WORK)
    )
    calls = "".join(
        f"s^=engine::{name}({amount * UNIT}{'*k' if name == 'lookup' else ''});" for name, amount in WORK.items()
    )
    return f"""mod engine {{ {bodies} }}
fn main(){{let k:u64=std::env::args().nth(1).map_or({k},|a|a.parse().unwrap());let mut s=0;
for _ in 0..{ROUNDS}{{{calls}}}std::hint::black_box(s);}}
"""


def go_source(k):
    bodies = "".join(
        f"//go:noinline\nfunc {name}(n uint64) {{ for i := uint64(0); i < n; i++ {{ sink += (i ^ {index}) * i }} }}\n"
        for index, name in enumerate(WORK)
    )
    calls = "\n".join(
        f"{name}({amount * UNIT}{f'*{k}' if name == 'lookup' else ''})" for name, amount in WORK.items()
    )
    return f"package main\nvar sink uint64\n{bodies}\nfunc main() {{ for r := 0; r < {ROUNDS}; r++ {{\n{calls}\n}} }}\n"


PYTHON_NATIVE = f"""import zlib
TIMES = {TIMES}
data = bytes(range(256)) * 4000
for _ in range(150 * TIMES):
    zlib.adler32(data); zlib.adler32(data)
    for _ in range(%d): zlib.crc32(data)
    zlib.compress(data, 1)
"""

PYTHON_HASH = f"""import hashlib, zlib
TIMES = {TIMES}
data = bytes(range(256)) * 4000
for _ in range(60 * TIMES):
    zlib.adler32(data); zlib.compress(data, 1); sorted(data[:40000])
    for _ in range(%d): hashlib.blake2b(data)
"""

ZLIB = """#include <stdlib.h>
#include <string.h>
#include "zlib.h"
static unsigned word;static unsigned char in[1<<20], out[2<<20];
int main(int argc,char**argv){int level=atoi(argv[1]);unsigned long sum=0;
for(unsigned i=0,x=1;i<sizeof in;i++){x=x*1103515245+12345;if(i%6==0)word=(x>>16)%64;in[i]='a'+(word*7+i%6*word)%23;}
for(int r=0;r<12;r++){uLongf n=sizeof out;compress2(out,&n,in,sizeof in,level);
for(int k=0;k<K*60;k++)sum+=crc32(0,in,sizeof in);}
return sum==42;}
"""

SQLITE = """#include "sqlite3.h"
#include <stdio.h>
#include <stdlib.h>
int main(int argc,char**argv){sqlite3*db;int k=atoi(argv[1]);sqlite3_open(":memory:",&db);
sqlite3_exec(db,"create table t as with recursive c(x) as (select 1 union all select x+1 from c where x<60000)"
" select x, 'abc'||hex(x*7)||'defghijklmnopqrst'||x as s from c",0,0,0);
for(int i=0;i<30*k;i++)sqlite3_exec(db,"select count(*) from t where s like '%f%j%q%9%2'",0,0,0);
for(int i=0;i<12;i++)sqlite3_exec(db,"select count(distinct substr(s,3)) from t",0,0,0);
return 0;}
"""


def build(command, source, path, suffix):
    """Builds a program from a text beside it; a build in place replaces the file, as make does."""
    path = pathlib.Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = path.with_suffix(suffix)
    text.write_text(source)
    words = [str(text) if word == "SOURCE" else str(path) if word == "PROGRAM" else word for word in command]
    subprocess.run(words, check=True, cwd=path.parent, capture_output=True)


def c(source, path, k, *flags, compiler="gcc"):
    build([compiler, "-O2", "-g", *flags, f"-DK={k}", "-o", "PROGRAM", "SOURCE"], source, path, ".c")


def cpp(path, k):
    build(["g++", "-O2", "-g", f"-DK={k}", "-o", "PROGRAM", "SOURCE"], cpp_source(), path, ".cpp")


def rust(path, k, tag):
    build(["rustc", "-O", "-g", "-C", f"metadata={tag}", "-o", "PROGRAM", "SOURCE"], rust_source(k), path, ".rs")


def go(path, k):
    build(["go", "build", "-o", "PROGRAM", "SOURCE"], go_source(k), path, ".go")


def zlib(path, k):
    folder = sorted(glob.glob(REGISTRY + "libbpf-sys-*/zlib"))[-1]
    sources = [f"{folder}/{name}.c" for name in ("deflate", "trees", "compress", "crc32", "adler32", "zutil", "inflate", "inftrees", "inffast", "uncompr")]
    build(["gcc", "-O2", "-g", f"-I{folder}", f"-DK={k}", "-o", "PROGRAM", "SOURCE", *sources], ZLIB, path, ".c")


def sqlite(path):
    folder = sorted(glob.glob(REGISTRY + "libsqlite3-sys-*/sqlite3"))[-1]
    build(["gcc", "-O0", f"-I{folder}", "-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_THREADSAFE=0", "-o", "PROGRAM", "SOURCE", f"{folder}/sqlite3.c", "-lm"], SQLITE, path, ".c")


def interpreter(version):
    found = shutil.which(f"python{version}")
    fallback = sorted(glob.glob(os.path.expanduser(f"~/.pyenv/versions/{version}.*/bin/python{version}")))
    if fallback:
        return fallback[-1]
    if not found:
        raise FileNotFoundError(f"python{version}")
    return found


class Pair:
    """A name, how to make ready and run each side, what doubles, by how much (None: by some factor > 1)."""

    def __init__(self, name, tuned, sides, function="lookup", factor=2.0):
        self.name, self.tuned, self.sides, self.function, self.factor = name, tuned, sides, function, factor


def in_place(name, tuned, make, **more):
    path = TEMPORARY / name / "app"
    side = lambda k: (lambda: make(path, k), [str(path)])
    return Pair(f"{name}, rebuilt in place", tuned, [side(1), side(2)], **more)


def directories(name, tuned, make, **more):
    side = lambda k: (lambda: make(TEMPORARY / name / f"v{k}" / "app", k), [str(TEMPORARY / name / f"v{k}" / "app")])
    return Pair(f"{name}, two directories", tuned, [side(1), side(2)], **more)


def arguments(name, tuned, make, arguments=("1", "2"), **more):
    path = TEMPORARY / name / "same"
    made = []
    once = lambda: made or made.append(make(path, 1))
    return Pair(f"{name}, another argument", tuned, [(once, [str(path), word]) for word in arguments], **more)


def all_pairs():
    two = {"lookup": 12, "other": 12}
    many = {**{f"step{i}": 1 + i % 3 for i in range(19)}, "lookup": 4}
    with_script = lambda folder, text: (lambda: (folder.mkdir(parents=True, exist_ok=True), (folder / "app.py").write_text(text)))

    def python_side(version, k, text, *options):
        folder = TEMPORARY / f"python{len(options)}" / f"v{k}"
        return (with_script(folder, text % k), [interpreter(version), *options, str(folder / "app.py")])

    def python(name, sides, **more):
        try:
            return Pair(name, False, sides(), **more)
        except FileNotFoundError as missing:
            return Pair(f"{name} ({missing} is missing)", False, [], **more)

    suffix = lambda path, k: c(c_source(qualifier="static __attribute__((noinline,noclone))" if k == 1 else "static __attribute__((noinline))"), path, k)
    return [
        in_place("c", True, lambda p, k: c(c_source(), p, k)),
        directories("c", True, lambda p, k: c(c_source(), p, k)),
        arguments("c", True, lambda p, k: c(c_source(), p, k)),
        in_place("cpp", True, cpp),
        directories("cpp", True, cpp),
        arguments("cpp", True, cpp),
        directories("c_suffixes", True, suffix),
        in_place("c_no_build_id", True, lambda p, k: c(c_source(), p, k, "-Wl,--build-id=none")),
        arguments("c_two_functions", True, lambda p, k: c(c_source(work=two), p, k)),
        arguments("c_many", True, lambda p, k: c(c_source(work=many), p, k)),
        in_place("rust", False, lambda p, k: rust(p, k, k)),
        directories("rust", False, lambda p, k: rust(p, k, k)),
        arguments("rust", False, lambda p, k: rust(p, k, 1)),
        in_place("go", False, go, function="main.lookup"),
        directories("go", False, go, function="main.lookup"),
        python("python 3.11 and 3.12, zlib's crc32", lambda: [python_side("3.11", 1, PYTHON_NATIVE), python_side("3.12", 2, PYTHON_NATIVE)], function="crc32_z"),
        python("python 3.11 and 3.12, its own blake2b", lambda: [python_side("3.11", 1, PYTHON_HASH, "-B"), python_side("3.12", 2, PYTHON_HASH, "-B")], function="blake2b_compress"),
        Pair("zlib, two directories", False, [(lambda k=k: zlib(TEMPORARY / "zlib" / f"v{k}" / "app", k), [str(TEMPORARY / "zlib" / f"v{k}" / "app"), "6"]) for k in (1, 2)], function="crc32_z"),
        arguments("zlib levels", False, zlib, arguments=("4", "9"), function="longest_match", factor=None),
        arguments("sqlite", False, lambda p, _: sqlite(p), function="patternCompare"),
    ]


def record(command, file):
    subprocess.run([VITALFEW, "record", "-q", "-o", str(file), "--", *command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)


def diff(a, b):
    done = subprocess.run([VITALFEW, "diff", "--json", "--all", str(a), str(b)], capture_output=True, text=True, check=False)
    return json.loads(done.stdout) if done.stdout else {"rows": []}


def try_pair(pair):
    """Whether the function is first with q < 0.05, and whether its interval holds the factor."""
    files = [TEMPORARY / "a.vf", TEMPORARY / "b.vf"]
    for (prepare, command), file in zip(pair.sides, files):
        file.unlink(missing_ok=True)
        prepare()
        record(command, file)
    rows = diff(*files)["rows"]
    if not rows:
        return False, False, "nothing to compare"
    first = rows[0]
    q = first["q"] if first["q"] is not None else 1.0
    is_it = pair.function in first["name"]
    found = bool(is_it and q < 0.05 and first["change"] > 0)
    row = first if is_it else next((r for r in rows if pair.function in r["name"]), first)
    held = pair.factor is None or row["factor_low"] <= pair.factor <= row["factor_high"]
    others = sum(r["differs"] for r in rows[1:])
    text = f"{first['name'][:40]} {first['factor']:.2f} [{first['factor_low']:.2f}, {first['factor_high']:.2f}] q {q:.2g}, {others} more"
    return found, held, text


def pairs():
    score = {True: [0, 0, 0], False: [0, 0, 0]}
    for pair in all_pairs():
        if HALF and pair.tuned != (HALF == "tuned"):
            continue
        for _ in range(REPEAT):
            try:
                found, held, text = try_pair(pair) if pair.sides else (False, False, "")
            except (OSError, IndexError, subprocess.CalledProcessError) as error:
                found, held, text = False, False, f"not made: {error}"
            sums = score[pair.tuned]
            sums[0] += 1
            sums[1] += found
            sums[2] += held
            half = "tuned" if pair.tuned else "held out"
            print(f"{'found ' if found else 'MISSED'} {'held' if held else 'OUT '} {half:8} {pair.name}: {text}", flush=True)
    for tuned, (count, found, held) in score.items():
        print(f"{'tuned' if tuned else 'held out'}: first with q < 0.05 in {found} of {count}, interval holds the factor in {held}")


def same():
    folder = TEMPORARY / "same"
    folder.mkdir()
    data, lines, script = folder / "data", folder / "lines", folder / "j.py"
    data.write_bytes(b"".join(str(i * i % 99991).encode() for i in range(400000)))
    lines.write_text("\n".join(str(i * 7919 % 1000003) for i in range(250000)))
    script.write_text("import json\nd=[{'a':i,'b':str(i)} for i in range(3000)]\nfor _ in range(20): json.loads(json.dumps(d)); sorted(d,key=lambda x:x['b'])\n")
    c(c_source(unit=3000), folder / "c", 1)
    programs = {
        "c": (True, [str(folder / "c")]),
        "gzip": (True, ["gzip", "-9c", str(data)]),
        "sort": (True, ["sort", str(lines)]),
        "python": (True, ["python3", str(script)]),
        "gcc": (True, ["gcc", "-O2", "-S", "-o", "/dev/null", str(folder / "c.c")]),
        "cpp": (False, [str(folder / "cpp")]),
        "rust": (False, [str(folder / "rust")]),
        "go": (False, [str(folder / "go")]),
        "xz": (False, ["xz", "-2c", str(data)]),
        "awk": (False, ["awk", "{s+=length($1)*$1; a[$1%1000]+=s} END {print s}", str(lines)]),
    }
    cpp(folder / "cpp", 1)
    rust(folder / "rust", 1, 1)
    go(folder / "go", 1)
    score = {True: [0, 0], False: [0, 0]}
    for name, (tuned, command) in programs.items():
        if HALF and tuned != (HALF == "tuned"):
            continue
        wrong = 0
        for _ in range(10):
            files = [TEMPORARY / "a.vf", TEMPORARY / "b.vf"]
            for file in files:
                file.unlink(missing_ok=True)
                record(command, file)
            claims = [r for r in diff(*files)["rows"] if r["differs"]]
            for row in claims:
                print(f"  {name}: {row['name'][:50]} {row['factor']:.2f} [{row['factor_low']:.2f}, {row['factor_high']:.2f}] q {row['q']:.2g}", flush=True)
            wrong += bool(claims)
        score[tuned][0] += 10
        score[tuned][1] += wrong
        print(f"{name}: {wrong} of 10 pairs claim a change", flush=True)
    for tuned, (count, wrong) in score.items():
        print(f"{'tuned' if tuned else 'held out'}: {wrong} of {count} pairs of one program claim a change")


if __name__ == "__main__":
    what = sys.argv[2] if len(sys.argv) > 2 else "all"
    if what in ("pairs", "all"):
        pairs()
    if what in ("same", "all"):
        same()
