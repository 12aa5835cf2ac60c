#!/usr/bin/env python3
"""Of virtual memory that a program manages itself libcuda.so.1 tells what a real driver told:
virtual_memory.c asks, and virtual_memory.tsv has the driver's answers.

Every answer that differs must be in docs/differences.md, in the section of these cases.

Usage: virtual_memory_test.py ROOT COMPAT CC...
"""

import pathlib
import sys
import tempfile

from answers import ask, compare, compile_program, explained_patterns

REQUIRED_SHARE = 0.97
# As many devices as the driver's machine had.
SETTINGS = {"WHERRY_DEVICES": "capacity=64M"}


def answers(text):
    """case -> (result, what was told beside it)."""
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
