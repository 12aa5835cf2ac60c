#!/usr/bin/env python3
"""Calls wait for pending work exactly where a real driver's do: the oracle's group `order` tests
which calls wait for which work.

The program decides by sleeps of some milliseconds, so a delayed thread can change an answer. The
group therefore runs up to ATTEMPTS times, and a case is right if one of its answers was. Every case
must be right.

With WHERRY_TEST_SCALE below 1 only some of the streams with pending work are tested.

Usage: order_test.py ROOT COMPAT CC...
"""

import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import some_of  # noqa: E402

from answers import ask, build_oracle, compare, find_oracle, oracle_answers

ATTEMPTS = 4
SETTINGS = {"WHERRY_DEVICES": "capacity=2G"}
STREAMS = "null legacy perthread blocking nonblocking".split()


def stream_of(case):
    return case.split(".")[1]


def question_of(case):
    return case.split(".", 2)[2]


def left_out(cases, streams):
    """ORACLE_SKIP for all cases of streams but `streams`. `cases`: the names of all cases."""
    questions = {question_of(case) for case in cases}
    others = [stream for stream in STREAMS if stream not in streams]
    return "".join(f",order.{stream}.{question}=SKIPPED" for stream in others
                   for question in questions) + ","


def main():
    root, compat, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    oracle = find_oracle(root)
    streams = some_of(STREAMS, "streams")
    all_cases = oracle_answers(next(oracle.glob("order-*-h100.tsv")).read_text())
    expected = {case: answer for case, answer in all_cases.items() if stream_of(case) in streams}
    with tempfile.TemporaryDirectory() as name:
        program, settings = build_oracle(oracle, root, compat, compiler, pathlib.Path(name))
        settings |= SETTINGS | {"ORACLE_SKIP": left_out(all_cases, streams)}
        got = {}
        for attempt in range(ATTEMPTS):
            # The command that the program itself runs for a group; it reads ORACLE_SKIP.
            printed, complaints = ask([program, "-child", "order"], compat, settings)
            for case, answer in oracle_answers(printed).items():
                if got.get(case) != expected.get(case):
                    got[case] = answer
            wrong = [case for case in expected if got.get(case) != expected[case]]
            print(f"attempt {attempt + 1}: {len(wrong)} cases differ\n{complaints}")
            if not wrong:
                break
    sys.exit(compare(expected, got, [], 1.0))


main()
