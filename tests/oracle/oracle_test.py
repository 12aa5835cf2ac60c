#!/usr/bin/env python3
"""libcuda.so.1 answers as a real driver did: ../shared/oracle beside the project holds a program
that makes some thousand calls with every edge of their arguments, and what the driver answered.

Every answer that differs must be in docs/differences.md, whose entries begin with patterns of case
names; and so many must be equal that REQUIRED_SHARE is reached.

Usage: oracle_test.py ROOT COMPAT CC...
"""

import pathlib
import sys
import tempfile

from answers import ask, build_oracle, compare, explained_patterns, find_oracle, oracle_answers

REQUIRED_SHARE = 0.98
# As many devices as the driver's machine had.
SETTINGS = {"WHERRY_DEVICES": "capacity=2G"}
# Without `order`, which order_test.py asks for, and `perf`, which has timings.
GROUPS = "noctx alloc adv advkind range rattrs prefetch pointer memkinds copy stream batch".split()


def main():
    root, compat, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    oracle = find_oracle(root)
    with tempfile.TemporaryDirectory() as name:
        program, settings = build_oracle(oracle, root, compat, compiler, pathlib.Path(name))
        printed, complaints = ask([program, *GROUPS], compat, SETTINGS | settings)
    expected = oracle_answers(next(oracle.glob("driver-*-h100.tsv")).read_text())
    print(complaints)
    sys.exit(compare(expected, oracle_answers(printed), explained_patterns(root, "Cases"),
                     REQUIRED_SHARE))


main()
