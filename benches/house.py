#!/usr/bin/env python3
"""Counts lines of code by crate, and words of documents, at commits: house.py COMMIT...

Blank lines, comments and files of tests do not count.
"""

import collections
import re
import subprocess
import sys

CODE = re.compile(r"(crates/[\w-]+|web)/.*\.(rs|c|h|ts|tsx|css)$")
TEST = re.compile(r"/tests/|/tests\.rs$")
DOCUMENT = re.compile(r"([^/]+|docs/.+|benches/.+)\.md$")
COMMENT = re.compile(r"^[ \t]*(//.*$|/\*[^*]*(\*(?!/)[^*]*)*\*/)", re.MULTILINE)


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, check=True, text=True).stdout


def show_commit(commit):
    lines, words = collections.Counter(), collections.Counter()
    for path in git("ls-tree", "-r", "--name-only", commit).splitlines():
        if DOCUMENT.match(path):
            words[path] += len(git("show", f"{commit}:{path}").split())
        elif (code := CODE.match(path)) and not TEST.search(path):
            text = COMMENT.sub("", git("show", f"{commit}:{path}"))
            lines[code.group(1)] += sum(1 for line in text.splitlines() if line.strip())
    print(f"{commit}: {sum(lines.values()):,} lines, {sum(words.values()):,} words")
    for name, count in [*sorted(lines.items()), *words.most_common(6)]:
        print(f"{count:7,}  {name}")


for commit in sys.argv[1:]:
    show_commit(commit)
