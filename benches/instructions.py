"""How near estimated frequencies come to the truth, on six programs at -O2 (issue 4, "Accuracy").

    benches/instructions.py VITALFEW [ACCURACY]

The truth are callgrind's counts of each instruction. ACCURACY is the example of that name of the
crate `vitalfew` (by default where cargo puts it, beside VITALFEW); it prints, for each way to use the
evidence, the share of samples whose block's estimate is within 5, 10, 15 and 25 % of the truth, the
same for edges, and for each confidence.
BENCH_SECONDS (30) is the length of a recording. Sources come from Debian's source packages, and
SQLite's from the crate that bundles it; they, and callgrind's counts, are kept in BENCH_CACHE
(target/bench-instructions).
"""

import glob
import os
import random
import re
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
CACHE = os.path.abspath(os.environ.get("BENCH_CACHE", "target/bench-instructions"))
SECONDS = float(os.environ.get("BENCH_SECONDS", "30"))
FREQUENCY = 10000
# Valgrind knows no AVX-512: the C library must take the same functions without it.
ALIKE = dict(os.environ, GLIBC_TUNABLES="glibc.cpu.hwcaps=-AVX512VL,-AVX512F,-AVX512BW")
FLAGS = ["gcc", "-O2", "-g", "-static", "-no-pie", "-w"]
TEXT, XML = CACHE + "/text", CACHE + "/document.xml"

# Source package, directory in it, files, flags.
SOURCES = {
    "bzip2": ("bzip2", "", "blocksort huffman crctable randtable compress decompress bzlib bzip2", []),
    "zlib": ("zlib", "", HERE + "/instructions/zip adler32 compress crc32 deflate inffast inflate inftrees trees "
             "uncompr zutil", ["-DHAVE_UNISTD_H", "-DHAVE_STDARG_H"]),
    "lua": ("lua5.4", "src", "lua lapi lauxlib lbaselib lcode lcorolib lctype ldblib ldebug ldo ldump lfunc lgc "
            "linit liolib llex lmathlib lmem loadlib lobject lopcodes loslib lparser lstate lstring lstrlib "
            "ltable ltablib ltm lundump lutf8lib lvm lzio", ["-DLUA_USE_POSIX", "-lm"]),
    "xmlwf": ("expat", "expat", "lib/xmlparse lib/xmlrole lib/xmltok xmlwf/xmlwf xmlwf/xmlfile xmlwf/codepage "
              "xmlwf/unixfilemap", ["-DXML_DEV_URANDOM", "-DHAVE_MEMMOVE", "-DXML_CONTEXT_BYTES=1024", "-DXML_NS",
                                    "-DXML_DTD", "-DXML_GE", "-DBYTEORDER=1234", "-DHAVE_UNISTD_H",
                                    "-DHAVE_FCNTL_H", '-DPACKAGE="expat"', "-Ilib"]),
    "mawk": ("mawk", "", None, []),
    "sql": (None, "", None, []),
}

# The arguments with which a command does its work `n` times.
COMMANDS = {
    "bzip2": lambda n: ["-9", "-k", "-c"] + [TEXT] * n,
    "zlib": lambda n: [TEXT, str(n)],
    "lua": lambda n: [HERE + "/instructions/work.lua", str(n)],
    "xmlwf": lambda n: [XML] * n,
    "mawk": lambda n: ["-f", HERE + "/instructions/work.awk"] + [TEXT] * n,
    "sql": lambda n: [str(n)],
}


def inputs():
    """Text of words as frequent as in prose, and a document of such words."""
    source = random.Random(7)
    words = ["".join(source.choice("etaoinshrdlcumwfgypbvk") for _ in range(source.randint(2, 9))) for _ in range(3000)]
    weights = [1 / (rank + 3) for rank in range(3000)]
    lines = []
    for number in range(20000):
        line = " ".join(source.choices(words, weights, k=source.randint(4, 14)))
        lines.append(line + (" %d" % source.randint(0, 99999) if number % 3 == 0 else ""))
    with open(TEXT, "w") as out:
        out.write("\n".join(lines) + "\n")
    items = []
    for number in range(12000):
        prose = " ".join(source.choices(words, weights, k=6))
        items.append(f'<a:item id="{number}" kind="{source.choice(words)}">{source.choice(words)} &amp; &who;'
                     f"<b>{prose}</b><!-- {source.choice(words)} --></a:item>")
    with open(XML, "w") as out:
        out.write('<?xml version="1.0"?>\n<!DOCTYPE list [<!ENTITY who "somebody">]>\n<list xmlns:a="urn:a">\n'
                  + "\n".join(items) + "\n</list>\n")


def fetch(package):
    """The directory of a Debian source package."""
    have = glob.glob(f"{CACHE}/src/{package}/*/")
    if not have:
        where = f"{CACHE}/src/{package}"
        os.makedirs(where, exist_ok=True)
        subprocess.run(["apt-get", "source", "-qq", "--download-only", package], cwd=where, stderr=subprocess.DEVNULL)
        tars = glob.glob(f"{where}/*.orig.tar.*")
        if not tars:
            sys.exit(f"no source of {package}: apt-get source needs deb-src in its lists")
        subprocess.run(["tar", "xf", tars[0]], cwd=where, check=True)
        have = glob.glob(f"{where}/*/")
    return have[0]


def build(name):
    program = f"{CACHE}/bin/{name}"
    if os.path.exists(program):
        return program
    os.makedirs(f"{CACHE}/bin", exist_ok=True)
    package, directory, files, flags = SOURCES[name]
    if name == "sql":
        found = sorted(glob.glob(os.path.expanduser("~/.cargo/registry/src/*/libsqlite3-sys-*/sqlite3/sqlite3.c")))
        if not found:
            sys.exit("libsqlite3-sys is not among cargo's sources")
        where = os.path.dirname(found[-1])
        command = FLAGS + ["-DSQLITE_OMIT_LOAD_EXTENSION", "-DSQLITE_THREADSAFE=0", "-I" + where,
                           HERE + "/instructions/sql.c", found[-1], "-lm", "-o", program]
        subprocess.run(command, check=True)
        return program
    where = os.path.join(fetch(package), directory)
    if files is None:
        static = [f"CFLAGS={' '.join(FLAGS[1:])}", "LDFLAGS=-static -no-pie"]
        subprocess.run(["./configure", "-q"] + static, cwd=where, check=True, stdout=subprocess.DEVNULL)
        subprocess.run(["make", "-s"], cwd=where, check=True, stdout=subprocess.DEVNULL)
        os.replace(f"{where}/{name}", program)
        return program
    command = FLAGS + ["-I."] + [file + ".c" for file in files.split()] + flags + ["-o", program]
    subprocess.run(command, cwd=where, check=True)
    return program


def truth(name, program):
    counts = f"{CACHE}/{name}.callgrind"
    if not os.path.exists(counts):
        subprocess.run(["valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--collect-jumps=yes",
                        "--compress-pos=no", "--compress-strings=no", f"--callgrind-out-file={counts}.part",
                        program] + COMMANDS[name](1), check=True, stdout=subprocess.DEVNULL)
        os.replace(counts + ".part", counts)
    return counts


def times(name, program):
    """How often the work is done in the time of a recording."""
    before = time.monotonic()
    subprocess.run([program] + COMMANDS[name](3), check=True, stdout=subprocess.DEVNULL, env=ALIKE)
    return max(1, round(3 * SECONDS / (time.monotonic() - before)))


def record(vitalfew, name, program):
    recording = f"{CACHE}/{name}.vf"
    command = [vitalfew, "record", "-q", "--registers", "--path-bursts", "-F", str(FREQUENCY), "-e", "cpu-clock:u",
               "-o", recording, "--", program] + COMMANDS[name](times(name, program))
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=ALIKE)
    return recording


def main():
    vitalfew = os.path.abspath(sys.argv[1])
    examples = os.path.join(os.path.dirname(vitalfew), "examples")
    accuracy = os.path.abspath(sys.argv[2]) if len(sys.argv) > 2 else examples + "/accuracy"
    os.makedirs(CACHE, exist_ok=True)
    if not (os.path.exists(TEXT) and os.path.exists(XML)):
        inputs()
    sums, confidences = {}, {}
    for name in COMMANDS:
        program = build(name)
        counts = truth(name, program)
        recording = f"{CACHE}/{name}.vf"
        if not (os.environ.get("BENCH_KEEP") and os.path.exists(recording)):
            recording = record(vitalfew, name, program)
        out = subprocess.run([accuracy, program, counts, recording], check=True, capture_output=True, text=True).stdout
        print(f"{name}\n{out}", flush=True)
        mode = None
        for line in out.splitlines():
            found = re.match(r"(\w+, .*?)  +([\d. NaN]+) edges +([\d. ]+?) [\d.]+ s", line)
            if found:
                mode = found[1]
                shares = [float(share) for share in (found[2] + " " + found[3]).split()]
                sums.setdefault(mode, []).append(shares)
            found = re.match(r"  (low|medium|high) +([\d.]+) %(.*)", line)
            if found and float(found[2]) > 0:
                weight = float(found[2])
                weighted = [weight] + [weight * float(share) for share in found[3].split()]
                confidences.setdefault((mode, found[1]), []).append(weighted)
    print("mean over programs: % of samples within 5, 10, 15, 25 %; edge executions likewise")
    for mode, rows in sums.items():
        print(f"{mode:32}" + "".join(f"{sum(column) / len(rows):6.1f}" for column in zip(*rows)))
        for (other, confidence), weighted in confidences.items():
            if other == mode:
                total = sum(row[0] for row in weighted)
                shares = [sum(row[i] for row in weighted) / total for i in range(1, 5)]
                print(f"  {confidence:8}{total / len(rows):5.1f} %" + "".join(f"{share:6.1f}" for share in shares))
    # How long all procedures of a large image take, with samples in each of them (section 6.2).
    procedures = examples + "/procedures"
    if os.path.exists(procedures):
        compiler = subprocess.run(["gcc", "-print-prog-name=cc1"], check=True, capture_output=True, text=True)
        print(flush=True)
        subprocess.run([procedures, compiler.stdout.strip()], check=True)


if __name__ == "__main__":
    main()
