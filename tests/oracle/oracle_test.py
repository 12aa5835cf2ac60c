#!/usr/bin/env python3
"""libcuda.so.1 answers as a real driver did: ../shared/oracle beside the project holds a program that makes some thousand calls
with every edge of their arguments, and what the driver answered.

Every answer that differs must be in docs/differences.md, where the first cells of a table have patterns of case names; and so many must be
equal that REQUIRED_SHARE is reached.

Usage: oracle_test.py ROOT COMPAT CC...
"""

import os
import pathlib
import sys
import tempfile

from answers import ask, compare, compile_program, explained_patterns

SKIPPED = 77
REQUIRED_SHARE = 0.98
# As many devices as the driver's machine had.
SETTINGS = {"WHERRY_DEVICES": "capacity=2G"}
GROUPS = "noctx alloc adv advkind range rattrs prefetch pointer memkinds copy stream batch".split()


def build(sources, root, compat, compiler, folder):
    library = pathlib.Path(compat, "libcuda.so.1")
    others = sorted(path for path in sources.glob("*.c") if path.name != "touch.c")
    compile_program(compiler, root, *others, library, "-o", folder / "oracle")
    compile_program(compiler, root, "-shared", "-fPIC", sources / "touch.c", "-o", folder / "touch.so")


def answers(text):
    """case -> (result, values)."""
    cases = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) >= 3 and not line.startswith("#"):
            cases[words[0]] = (words[2], words[3].strip() if len(words) > 3 else "")
    return cases


def main():
    root, compat, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    oracle = root.parent / "shared/oracle"
    if not os.path.isdir(oracle / "src"):  # also where it may not be looked at
        print("SKIP: no ../shared/oracle beside the project")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(oracle / "src", root, compat, compiler, folder)
        settings = SETTINGS | {"ORACLE_MODULE": str(folder / "touch.so")}
        printed, complaints = ask([folder / "oracle", *GROUPS], compat, settings)
    expected = answers(next(oracle.glob("driver-*-h100.tsv")).read_text())
    print(complaints)
    sys.exit(compare(expected, answers(printed), explained_patterns(root, "cases"), REQUIRED_SHARE))


main()
