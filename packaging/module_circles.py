#!/usr/bin/env python3
"""Fails on circles of modules inside a crate, and on commands that use each other.

module_circles.py [ROOT]      checks ROOT/crates/*/src
module_circles.py --test      tests itself

What the modules of a circle share goes into a module below them all; what commands share, into one beside `commands`, or into
a crate below.

A module has an arrow to another one whose items it names by a path (`use` or inline). Names that a module only passes on
(`pub use`) lead to the module that has them, so that a circle does not hide behind a `mod.rs`. Tests have no arrows.
"""

import os
import re
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
# What must not be looked into: comments, texts, characters (but not lifetimes).
OPAQUE = re.compile(
    r'//[^\n]*|/\*.*?\*/|(?<!\w)b?r(#*)".*?"\1|(?<!\w)[bc]?"(?:\\.|[^"\\])*"|\'(?:\\[^\']+|[^\'\\])\'', re.S
)
TEST = re.compile(r"#\[cfg\(test\)\]\s*(?:#\[path\s*=[^\]]*\]\s*)?(?:pub(?:\([^)]*\))?\s+)?(?:mod|use|fn|impl|const|static)\b")
USE = re.compile(r"(\bpub(?:\([^)]*\))?\s+)?\buse\s+([^;]+);")
INLINE = re.compile(r"(?<![\w:])\w+(?:\s*::\s*\w+)+")


def without_tests(code):
    """Returns code without the items that are compiled for tests only."""
    while found := TEST.search(code):
        end, depth = found.end(), 0
        while end < len(code):
            depth += {"{": 1, "}": -1}.get(code[end], 0)
            end += 1
            if depth == 0 and code[end - 1] in "};":
                break
        code = code[: found.start()] + code[end:]
    return code


def paths_of_use(tree, before=()):
    """Yields (path, name that it gets here) for each leaf of a tree of `use`."""
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = (part.strip() for part in re.sub(r"\bas\b", "\0", tree, count=1).partition("\0"))
        steps = before + tuple(step.strip() for step in path.split("::") if step.strip())
        if steps and steps[-1] == "self":
            steps = steps[:-1]
        if steps:
            yield steps, alias or steps[-1]
        return
    before += tuple(step.strip() for step in head.split("::") if step.strip())
    depth, start = 0, 0
    body = rest[: rest.rfind("}")] + ","
    for at, char in enumerate(body):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if char == "," and depth == 0:
            if body[start:at].strip():
                yield from paths_of_use(body[start:at], before)
            start = at + 1


class Crate:
    """The modules of a crate, by path: a tuple of names."""

    def __init__(self, source):
        self.code = {}
        for directory, _, files in os.walk(source):
            for name in files:
                if name.endswith(".rs"):
                    self.read(source, os.path.join(directory, name))
        # Names that a module passes on: where they come from.
        self.passed_on = {module: {} for module in self.code}
        for module in self.code:
            for public, path, name in self.uses(module):
                if public and (target := self.absolute(module, path)) is not None:
                    self.passed_on[module][name] = target

    def read(self, source, path):
        steps = os.path.relpath(path, source)[: -len(".rs")].split(os.sep)
        if steps[-1] in ("mod", "lib", "main"):
            steps.pop()
        with open(path, encoding="utf-8") as file:
            self.code[tuple(steps)] = without_tests(OPAQUE.sub(" ", file.read()))

    def uses(self, module):
        for found in USE.finditer(self.code[module]):
            for path, name in paths_of_use(found.group(2)):
                yield bool(found.group(1)), path, name

    def absolute(self, module, path):
        """Returns a path from the crate's root; None if it leads out of the crate."""
        if path[0] == "crate":
            return path[1:]
        if path[0] == "self":
            return module + path[1:]
        if path[0] == "super":
            while path and path[0] == "super":
                module, path = module[:-1], path[1:]
            return module + path
        return module + path if module + path[:1] in self.code else None

    def owner(self, path, depth=0):
        """Returns the module that has what a path names."""
        for length in range(len(path), -1, -1):
            if path[:length] in self.code:
                break
        module, rest = path[:length], path[length:]
        if rest and rest[0] in self.passed_on[module] and depth < 16:
            return self.owner(self.passed_on[module][rest[0]] + rest[1:], depth + 1)
        return module

    def is_test(self, module):
        return any(step.endswith("tests") or step == "hostile" for step in module)

    def arrows(self):
        arrows = {module: set() for module in self.code if not self.is_test(module)}
        for module in arrows:
            paths = [path for public, path, _ in self.uses(module) if not public]
            code = USE.sub(" ", self.code[module])
            paths += [tuple(re.split(r"\s*::\s*", path)) for path in INLINE.findall(code)]
            for path in paths:
                if (target := self.absolute(module, path)) is not None:
                    arrows[module].add(self.owner(target))
            arrows[module] &= arrows.keys() - {module}
        return arrows


def circles(arrows):
    """Returns the sets of modules that can reach each other, of two and more."""
    reached = {}
    for start in arrows:
        seen, todo = set(), [start]
        while todo:
            for target in arrows[todo.pop()] - seen:
                seen.add(target)
                todo.append(target)
        reached[start] = seen
    found = []
    for module in sorted(arrows):
        if module in reached[module] and not any(module in circle for circle in found):
            found.append({other for other in reached[module] if module in reached[other]})
    return found


def name(module):
    return "/".join(module) or "lib"


def between_commands(arrows):
    """Returns the pairs of modules below `commands/X` and `commands/Y` of which the first uses the second."""
    parts = {module: module[1] for module in arrows if module[:1] == ("commands",) and module[1:]}
    return [{user, used} for user in sorted(parts) for used in arrows[user] & parts.keys() if parts[user] != parts[used]]


def find(root):
    """Returns what is wrong below a directory, as (crate, names of modules)."""
    crates = os.path.join(root, "crates")
    found = []
    for crate in sorted(os.listdir(crates)):
        arrows = Crate(os.path.join(crates, crate, "src")).arrows()
        for wrong in circles(arrows) + between_commands(arrows):
            found.append((crate, frozenset(map(name, wrong))))
    return found


def crate_of(files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            path = os.path.join(root, "crates/a/src", path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return find(root)


def test():
    circle = [("a", frozenset(["x", "y"]))]
    plain = {"lib.rs": "mod x; mod y;", "x.rs": "use crate::y::Y;", "y.rs": "fn f() { crate::x::f() }"}
    assert crate_of(plain) == circle
    assert crate_of(plain | {"y.rs": "// crate::x\nconst A: &str = \"use crate::x::X;\"; fn f<'a>(_: &'a u8) {}"}) == []
    assert crate_of(plain | {"y.rs": "#[cfg(test)]\nmod tests { use crate::x::X; fn f() { if true {} } }"}) == []
    assert crate_of(plain | {"y.rs": "const A: char = '\"'; use super::x::{A, b::{C, D}}; const B: char = '\"';"}) == circle
    faces = {"lib.rs": "mod m; mod n;", "m/mod.rs": "pub mod x; pub use x::{X, Z as W};", "m/x.rs": "use crate::n::N;"}
    behind = [("a", frozenset(["m/x", "n"]))]
    assert crate_of(faces | {"n.rs": "use crate::m::X;"}) == behind
    assert crate_of(faces | {"n.rs": "use crate::m::W;"}) == behind
    assert crate_of(faces | {"n.rs": "use other::X;"}) == []
    child = {"lib.rs": "mod m;", "m/mod.rs": "mod x; fn f() { x::g() }", "m/x.rs": "fn g(_: super::T) {}"}
    assert crate_of(child) == [("a", frozenset(["m", "m/x"]))]
    parent = {"lib.rs": "mod m;", "m/mod.rs": "mod x; struct T; fn f() { x::g() } use x::g;", "m/x.rs": "use super::T;"}
    assert crate_of(parent) == [("a", frozenset(["m", "m/x"]))]
    commands = {"commands/mod.rs": "mod x; mod y;", "commands/x/mod.rs": "mod z; use z::Z;", "commands/x/z.rs": "", "commands/y.rs": ""}
    assert crate_of(commands) == []
    between = [("a", frozenset(["commands/x/z", "commands/y"]))]
    assert crate_of(commands | {"commands/x/z.rs": "use crate::commands::y::Y;"}) == between
    assert crate_of(commands | {"commands/y.rs": "fn f() { super::x::z::g() }"}) == between
    print("module_circles.py: its tests passed")


def main(arguments):
    if "--test" in arguments:
        return test()
    found = find(arguments[0] if arguments else ROOT)
    if found:
        sys.exit("\n".join(f"{crate}: a circle, or commands that use each other: {' '.join(sorted(modules))}" for crate, modules in found))


if __name__ == "__main__":
    main(sys.argv[1:])
