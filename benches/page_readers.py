#!/usr/bin/env python3
"""page_readers.py VITALFEW DIRECTORY: what readers need to be asked what a program's page tells them within a minute.

Ten programs of known truth (those of run_cases/, without their comments and without the repair that their sources hold) are run and recorded.
DIRECTORY/NN/ gets what a reader sees of each: `page.png`, the front of the page, and `click.png`, where a click on the first finding's place leads;
beside them, for readers of other tools, `pprof.txt` (`go tool pprof -top`, by procedure and by line) and `coz.txt` (Debian's Coz, five runs).
DIRECTORY/truth.json has each program's true places and what the repair gains: medians of the original's and the repaired form's durations by turns.
A reader is asked: "You have a minute. Which function or line would you change first, and how many per cent shorter would the run become?"
"""

import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import time

import bench
from bench import VITALFEW

OUT = pathlib.Path(sys.argv[2])
SOURCES = bench.HERE / "run_cases"
TIMES, BUDGET = int(os.environ.get("READERS_TIMES", "5")), os.environ.get("READERS_FOR", "40s")
COMMENTS = re.compile(r'"(?:\\.|[^"\\])*"|`[^`]*`|/\*.*?\*/|//[^\n]*', re.S)
DOCUMENTATION = re.compile(r'"""states:.*?"""\n', re.S)

# Of each program: its true places, and what of its source is left away so that it holds no repair.
PROGRAMS = {
    "blind_copies.cpp": (["best_move", "score_copy", "State"], [
        ("static bool repaired;\n", ""), (r"__attribute__\(\(noinline\)\) static long score_state.*?\n}\n", ""),
        (r"repaired \? score_state\(state, move\) : ", ""), (r"  repaired = count > 1;\n", "")]),
    "later_writer.c": (["store_record"], [(r"if \(!repaired \|\| number % 32 == 31\) ", ""), (r"  repaired = words > 1;\n", "")]),
    "unseen_tree.cpp": (["price_of"], [
        ("static bool repaired;\n", ""), (r"static std::vector<uint32_t> table;\n", ""), (r"repaired \? table\[article\] : ", ""),
        (r"  repaired = count > 1;\n", ""), (r"  if \(repaired\) table.*?\n  else\n  ", "")]),
    "blind_branches.rs": (["count_high"], [(r"    if std::env::args.*?\n    }\n", ""), ("let mut readings", "let readings")]),
    "blind_frames.c": (["draw_frame"], [
        (r"  unsigned char \*kept = .*?\n", ""), (r"kept \? kept : ", ""), (r"if \(!kept\) ", "")]),
    "later_chain.cpp": (["weigh_parts"], [(r"if \(count == 1\) ", "")]),
    "unseen_shapes.cpp": (["total_area", "area"], [(r"  if \(count > 1\) {.*?\n  }\n", "")]),
    "later_journal.cpp": (["append_entry"], [
        ("static bool repaired;\n", ""), (r"if \(!repaired \|\| \+\+entries % 12 == 0\) ", ""), (r"  repaired = count > 1;\n", ""), (r"file, entries = 0", "file")]),
    "unseen_lookup.js": (["customerOf"], [
        (r"const repaired = .*?\n", ""), (r"  if \(repaired\).*?\n", ""), (r"const byId = .*?\n", "")]),
    "later_states.py": (["has_changed"], [(r"REPAIRED = .*?\n", ""), (r"state\[name\] if REPAIRED else state", "state")]),
}
INTERPRETERS = {"js": "node", "py": sys.executable}


def without_repair(source, edits):
    text = COMMENTS.sub(lambda found: re.sub(r"[^\n]", "", found[0]) if found[0].startswith("/") else found[0], source)
    text = DOCUMENTATION.sub("", text)
    for pattern, new in edits:
        text, times = re.subn(pattern, new, text, flags=re.S)
        if not times:
            sys.exit(f"{pattern} is not in the source")
    if "repair" in text.lower():
        sys.exit(f"the source tells of its repair:\n{text}")
    return text


def build(folder, suffix, name, *options):
    """The command of a program of `folder`."""
    if suffix in INTERPRETERS:
        return [INTERPRETERS[suffix], f"{name}.{suffix}"]
    subprocess.run([*bench.COMPILERS[f".{suffix}"], *options, "-o", name, f"{name}.{suffix}"], cwd=folder, check=True, capture_output=True)
    return [f"./{name}"]


def seconds(folder, command):
    begin = time.monotonic()
    subprocess.run(command, cwd=folder, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - begin


def coz_profile(folder, command):
    for _ in range(5):
        try:
            subprocess.run(["coz", "run", "--end-to-end", "---", *command], cwd=folder, capture_output=True, timeout=60)
        except subprocess.TimeoutExpired:
            break
    profile = folder / "profile.coz"
    return profile.read_text() if profile.exists() else "(no profile was written)\n"


def pictures(folder, out):
    """Of the page, at its front and where the first finding's place leads."""
    subprocess.run(["node", bench.HERE.parent / "web" / "pictures.js", folder / "page.html", out], check=True)


def main():
    truth = OUT / "truth.json"
    truths = json.loads(truth.read_text()) if truth.exists() else {}
    chosen = os.environ.get("READERS_PROGRAMS", " ".join(PROGRAMS)).split()
    for number, (source, (places, edits)) in enumerate(PROGRAMS.items(), 1):
        if source not in chosen:
            continue
        name, suffix = source.split(".")
        out, work = OUT / f"{number:02}", OUT / "work" / f"{number:02}"
        for folder in (out, work):
            folder.mkdir(parents=True, exist_ok=True)
        (work / f"app.{suffix}").write_text(without_repair((SOURCES / source).read_text(), edits))
        for copied in (source, "work.h"):
            shutil.copy(SOURCES / copied, work)
        for_coz = None if suffix in INTERPRETERS else build(work, suffix, "app", *([] if suffix == "rs" else ["-gdwarf-4"]))
        if for_coz and shutil.which("coz"):
            (out / "coz.txt").write_text(coz_profile(work, for_coz))
        command, both = build(work, suffix, "app"), build(work, suffix, name)
        pairs = [(seconds(work, both), seconds(work, [*both, "repaired"])) for _ in range(TIMES)]
        original, repaired = (statistics.median(each) for each in zip(*pairs))
        truths[f"{number:02}"] = {"program": source, "places": places, "gain": 1 - repaired / original, "seconds": pairs}
        truth.write_text(json.dumps(truths, indent=1))

        def vitalfew(*words):
            subprocess.run([VITALFEW, *words], cwd=work, check=True, capture_output=True)

        vitalfew("run", "-q", "--for", BUDGET, "-o", "run.json", "--", *command)
        vitalfew("record", "-q", "-g", "-o", "app.vf", "--", *command)
        vitalfew("html", "page.html", "run.json", "app.vf")
        pictures(work, out)
        if shutil.which("go"):
            vitalfew("export", "--format", "pprof", "-o", "app.pb.gz", "app.vf")
            tables = [subprocess.run(["go", "tool", "pprof", "-top", "-nodecount=15", *more, "app.pb.gz"], cwd=work, capture_output=True, text=True).stdout for more in ([], ["-lines"])]
            (out / "pprof.txt").write_text("\nBy line:\n".join(tables))
        print(f"{number:02} {source}: {original:.2f} s, repaired {repaired:.2f} s", flush=True)


main()
