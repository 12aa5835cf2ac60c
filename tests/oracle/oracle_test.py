#!/usr/bin/env python3
"""libcuda.so.1 answers like a real driver: ../shared/oracle beside the project holds a program that
makes some thousand calls with edge cases of their arguments, and the driver's answers.

Every different answer must be in docs/differences.md, where the first cells of a table have
patterns of case names; and the share of equal answers must reach REQUIRED_SHARE.

Usage: oracle_test.py ROOT COMPAT CC...
"""

import pathlib
import sys
import tempfile

from answers import ask, build_oracle, compare, explained_patterns, find_oracle, oracle_answers

REQUIRED_SHARE = 0.98
# The driver's machine had one device.
SETTINGS = {"WHERRY_DEVICES": "capacity=2G"}
# Without `order`, which order_test.py runs, and `perf`, which measures times.
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
