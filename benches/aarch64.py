#!/usr/bin/env python3
"""Records programs on AArch64 Linux in an emulated machine, and checks stacks and shares.

aarch64.py --tool VITALFEW PACKAGE...

VITALFEW is a build for aarch64-unknown-linux-gnu. The packages are Debian's for arm64: a kernel (linux-image-…), busybox-static,
and the libraries that the build needs (libc6, libgcc-s1, libelf1, zlib1g); with python3-minimal's a Python program is recorded,
too. Needs qemu-system-aarch64 and gcc-aarch64-linux-gnu. QEMU translates each instruction: times mean nothing here, shares do.
`--cpu max,pauth-impdef=on` (the default) signs return addresses where programs ask for it, `--cpu cortex-a72` cannot.
"""
import argparse
import glob
import gzip
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = {"split": HERE + "/aarch64/split.c", "walks": HERE + "/../tests/programs/walks.c", "deep": HERE + "/../tests/programs/deep.c"}
WITHOUT = ["-fomit-frame-pointer"]
# Name, source, flags, arguments.
PROGRAMS = [
    ("split", "split", WITHOUT, "600"),
    ("split-signed", "split", [*WITHOUT, "-mbranch-protection=standard"], "600"),
    ("split-static", "split", [*WITHOUT, "-static"], "600"),
    ("split-frames", "split", ["-fno-omit-frame-pointer"], "600"),
    ("walks", "walks", WITHOUT, ""),
    ("deep", "deep", WITHOUT, "20"),
]
PYTHON = """
def three(n):
    x = n
    for i in range(3 * n): x = x * 1664525 + 1013904223 & 0xffffffff
    return x
def one(n):
    x = n
    for i in range(n): x = x * 1664525 + 1013904223 & 0xffffffff
    return x
def deep(depth):
    if depth: return deep(depth - 1) + 1
    return sum(three(1000) + one(1000) for _ in range(500))
deep(20)
"""


def make_root(root, arguments):
    """Unpacks the packages, and adds the tool, the programs and the scripts."""
    for name in ("bin", "lib"):
        os.makedirs(f"{root}/usr/{name}", exist_ok=True)
        os.symlink("usr/" + name, f"{root}/{name}")
    for package in arguments.packages:
        # Only the kernel itself is wanted of its package.
        of_kernel = os.path.basename(package).startswith("linux-image")
        files = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE)
        wanted = ["--wildcards", "./boot/vmlinuz-*"] if of_kernel else []
        subprocess.run(["tar", "-x", "--keep-directory-symlink", "-C", root, *wanted], stdin=files.stdout, check=True)
        files.wait()
    os.makedirs(root + "/programs", exist_ok=True)
    for directory in ("proc", "sys", "dev", "tmp", "root"):
        os.makedirs(f"{root}/{directory}", exist_ok=True)
    for name, source, flags, words in PROGRAMS:
        compiler = ["aarch64-linux-gnu-gcc", "-O2", "-g", "-pthread", *flags]
        subprocess.run([*compiler, SOURCES[source], "-o", f"{root}/programs/{name}"], check=True)
        with open(f"{root}/programs/{name}.arguments", "w") as file:
            file.write(words)
    with open(root + "/programs/split.py", "w") as file:
        file.write(PYTHON)
    beside = os.path.dirname(os.path.abspath(arguments.tool))
    files = {"vitalfew": arguments.tool} | {os.path.basename(file): file for file in glob.glob(beside + "/libvitalfew_runtime.so")}
    for name, file in files.items():
        subprocess.run(["aarch64-linux-gnu-strip", "-g", file, "-o", f"{root}/bin/{name}"], check=True)
    shutil.copy(HERE + "/aarch64/guest.sh", root + "/init")
    shutil.copy(arguments.job, root + "/job.sh")
    os.chmod(root + "/init", 0o755)


def write_archive(root, out):
    """Writes the files as the kernel wants them (cpio, "newc")."""
    def entry(number, name, mode, data):
        fields = [number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        head = "070701" + "".join(f"{field:08x}" for field in fields) + name + "\0"
        out.write(head.encode() + b"\0" * (-len(head) % 4) + data + b"\0" * (-len(data) % 4))

    number = 1
    for directory, names, files in os.walk(root):
        for name in names + files:
            path = os.path.join(directory, name)
            mode = os.lstat(path).st_mode
            data = b""
            if os.path.islink(path):
                data = os.readlink(path).encode()
            elif os.path.isfile(path):
                data = open(path, "rb").read()
            if not os.path.relpath(path, root).startswith("boot"):
                entry(number, os.path.relpath(path, root), mode, data)
                number += 1
    entry(0, "TRAILER!!!", 0, b"")


def boot(root, directory, arguments):
    """Returns what the machine wrote to its console."""
    archive = directory + "/root.cpio.gz"
    with gzip.open(archive, "wb", compresslevel=1) as out:
        write_archive(root, out)
    kernel = glob.glob(root + "/boot/vmlinuz-*")[0]
    command = ["nice", "-n", "10", "qemu-system-aarch64", "-M", "virt", "-cpu", arguments.cpu, "-m", "2G", "-smp", "2", "-nographic",
               "-no-reboot", "-nic", "none", "-kernel", kernel, "-initrd", archive, "-append", "console=ttyAMA0 quiet panic=-1"]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, errors="replace")
    end = threading.Timer(arguments.seconds, machine.kill)
    end.start()
    lines, shown = [], True
    for line in map(str.rstrip, machine.stdout):
        lines.append(line)
        if line.startswith("== "):
            shown = not line.startswith("== shares")
        if shown:
            print(line, flush=True)
    end.cancel()
    machine.wait()
    return lines


def checked(lines):
    """Yields what each recording had: name, share of whole stacks, share of three() in both functions."""
    for name, text in re.findall(r"^== shares (\S+)\n({.*?)\n== exit", "\n".join(lines), re.M | re.S):
        report = json.loads(text)
        amounts = {row["name"]: row["amounts"][0] for row in report["rows"]}
        three, one = amounts.get("three", 0), amounts.get("one", 0)
        yield name, report["events"][0]["total"], report.get("complete_stacks"), three / (three + one) if three else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tool", required=True)
    parser.add_argument("--cpu", default="max,pauth-impdef=on")
    parser.add_argument("--job", default=HERE + "/aarch64/job.sh", help="what the machine runs")
    parser.add_argument("--seconds", type=float, default=1500, help="when the machine is ended")
    parser.add_argument("packages", nargs="+")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        root = directory + "/root"
        os.mkdir(root)
        make_root(root, arguments)
        lines = boot(root, directory, arguments)
    failed = "== done" not in lines
    for name, samples, whole, share in checked(lines):
        bad = (whole is not None and whole < 0.99) or (share is not None and abs(share - 0.75) > 0.02)
        failed |= bad
        whole = "" if whole is None else f", {100 * whole:.2f} % whole"
        share = "" if share is None else f", three() has {100 * share:.1f} % (75)"
        print(f"{name:14} {samples:7} samples{whole}{share}{'  FAILED' if bad else ''}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
