#!/usr/bin/env python3
"""libcuda.so.1 answers queries about virtual memory management like a real driver: virtual_memory.c
makes the queries, and virtual_memory.tsv has the driver's answers.

Every different answer must be in docs/differences.md, in the table of these cases.

Usage: virtual_memory_test.py ROOT COMPAT CC...
"""

import pathlib
import sys
import tempfile

from answers import ask, compare, compile_program, explained_patterns

REQUIRED_SHARE = 0.97
# The driver's machine had one device.
SETTINGS = {"WHERRY_DEVICES": "capacity=64M"}


def answers(text):
    """case -> (result, returned values)."""
    lines = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return {words[0]: tuple(words[1:]) for words in lines}


def main():
    root, compat, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    here = root / "tests/oracle"
    with tempfile.TemporaryDirectory() as name:
        program = pathlib.Path(name, "virtual_memory")
        compile_program(compiler, root, here / "virtual_memory.c",
                        pathlib.Path(compat, "libcuda.so.1"), "-o", program)
        printed, complaints = ask([program], compat, SETTINGS)
    print(complaints)
    expected = answers((here / "virtual_memory.tsv").read_text())
    patterns = explained_patterns(root, "Cases of virtual memory")
    sys.exit(compare(expected, answers(printed), patterns, REQUIRED_SHARE))


main()
