#!/usr/bin/env python3
"""Prints the licences of all that is built into the program: each text once, above it what has it."""

import json
import subprocess
from pathlib import Path

STATIC = """\
Linked statically from the machine that built the packages: the GNU C library (LGPL-2.1-or-later), libelf of elfutils
(GPL-2.0-or-later OR LGPL-3.0-or-later), zlib (Zlib). libbpf, zstd and SQLite are built from the sources in the crates
libbpf-sys, zstd-sys and libsqlite3-sys. The program can be linked with other versions of them: its source is public.
"""


def output_of(*command, **options):
    return subprocess.run(command, check=True, capture_output=True, text=True, **options).stdout


def crates():
    """Yields the name, the licence and the directory of each crate that is linked."""
    tree = ["cargo", "tree", "--locked", "-p", "vitalfew", "-p", "runtime", "-e", "normal"]
    linked = {tuple(line.split()[:2]) for line in output_of(*tree, "--prefix", "none").splitlines() if line}
    metadata = json.loads(output_of("cargo", "metadata", "--locked", "--format-version", "1"))
    for package in metadata["packages"]:
        if package["source"] and (package["name"], "v" + package["version"]) in linked:
            yield f"{package['name']} {package['version']}", package["license"], Path(package["manifest_path"]).parent


def modules():
    """Yields the same for each module of the page."""
    for line in output_of("npm", "ls", "--all", "--omit=dev", "--parseable", cwd="web").splitlines()[1:]:
        package = json.loads(Path(line, "package.json").read_text())
        yield f"{package['name']} {package['version']} (page)", package["license"], Path(line)


having = {}
for name, licence, directory in sorted([*crates(), *modules()]):
    files = [path for path in sorted(directory.iterdir()) if path.name.upper().startswith(("LICEN", "COPYING", "NOTICE"))]
    texts = [path.read_text(errors="replace").strip() for path in files if path.is_file()]
    for text in texts or ["(The package has no file of its licence.)"]:
        having.setdefault(text, []).append(f"{name}: {licence}")

print(STATIC)
for text, names in having.items():
    print("=" * 100, *names, "", text, sep="\n")
