#!/usr/bin/env python3
"""Summarizes Meson's test logs: each failure with the end of what the test wrote, each reason for a
skip with the tests that it skipped, how many cases the short form left out, and in the last line
the number of tests.

Usage: test_summary.py NAME=BUILD/meson-logs/LOG... [elsewhere=FILE]
NAME says how the tests were run. A missing log means that they did not run, which counts as one
failure. FILE is what tools/elsewhere printed. A failure is also each error that a sanitizer has
reported in the build's reports folder, also from a process whose end the test expected. Exits 0 if
nothing failed.
"""

import json
import pathlib
import re
import sys


NAMED = 3  # if one reason skipped more tests than this, they are counted, not named
REPORTED = 24  # how many lines of a failed test's output are repeated


def label_of(test):
    """Meson writes PROJECT:SUITE+SUITE / NAME, and the first suite is the test's folder."""
    suites, _, name = test["name"].rpartition(" / ")
    folder = suites.partition(":")[2].partition("+")[0]
    return f"{folder}/{name}" if folder else name


def reason_of(test):
    """Why a test was skipped: the last reason that it printed."""
    lines = [line for line in test.get("stdout", "").splitlines() if line.startswith("SKIP: ")]
    return lines[-1].removeprefix("SKIP: ") if lines else "no reason given"


def report_of(test):
    """The last lines that a failed test wrote. A log that keeps only its end has them, too."""
    lines = [line for kind in ("stdout", "stderr") for line in test.get(kind, "").splitlines()
             if line.strip()]
    return "".join(f"\n         | {line}" for line in lines[-REPORTED:])


def drawn_in(test):
    """How many cases were drawn to run, and from how many (tests/support/length.py)."""
    draws = re.findall(r"^WHERRY_TEST_RUN=\d+: (\d+) of (\d+) ", test.get("stdout", ""),
                       re.MULTILINE)
    return sum(int(ran) for ran, _ in draws), sum(int(existing) for _, existing in draws)


def elsewhere(printed):
    """The results on other machines: how many passed, what failed, how many were skipped, why."""
    counts = re.findall(r"^(\S+): (\d+) passed, (\d+) failed, (\d+) skipped \(\d+ s\)$", printed,
                        re.MULTILINE)
    failed = re.findall(r"^\S+: FAILED: .*$", printed, re.MULTILINE)
    # tools/test adds the last line.
    if not re.search(r"^exit code [01]$", printed, re.MULTILINE):
        failed.append("elsewhere: tools/elsewhere did not end")
    return (sum(int(passed) for _, passed, _, _ in counts), failed,
            sum(int(skipped) for *_, skipped in counts),
            re.findall(r"^\S+: skipped: .*$", printed, re.MULTILINE))


def sanitizer_errors(build):
    """One line for each report of an error. Warnings of the sanitizers do not count."""
    for report in sorted((pathlib.Path(build) / "reports").glob("*")):
        for line in report.read_text(errors="replace").splitlines():
            if "ERROR: " in line or "runtime error: " in line:
                yield f"{line} ({report})"
                break


def main():
    passed, skipped, failed, skips, draws = 0, 0, [], [], []
    for flavour in sys.argv[1:]:
        name, _, path = flavour.partition("=")
        log = pathlib.Path(path)
        if name == "elsewhere":
            others, wrong, count, left = elsewhere(log.read_text() if log.is_file() else "")
            passed, skipped = passed + others, skipped + count
            failed += wrong
            skips += left
            continue
        tests = [json.loads(line) for line in log.read_text().splitlines()] if log.is_file() else []
        if not tests:
            failed.append(f"{name}: was not built, or its tests did not start")
        failed += [f"{name}: {line}" for line in sanitizer_errors(log.parent.parent)]
        ran, existing = map(sum, zip((0, 0), *map(drawn_in, tests)))
        if ran < existing:
            draws.append(f"{name}: {existing - ran} of {existing} cases, which run within the next "
                         "20 runs of this folder")
        skipped_for = {}
        for test in tests:
            if test["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif test["result"] == "SKIP":
                skipped += 1
                skipped_for.setdefault(reason_of(test), []).append(label_of(test))
            else:
                failed.append(f"{name}: {label_of(test)}: {test['result']} "
                              f"after {test['duration']:.0f} s{report_of(test)}")
        for reason, labels in skipped_for.items():
            which = ", ".join(labels) if len(labels) <= NAMED else f"{len(labels)} tests"
            skips.append(f"{name}: {which}: {reason}")

    for line in failed:
        print(f"FAILED   {line}")
    for line in skips:
        print(f"skipped  {line}")
    for line in draws:
        print(f"left out {line}")
    print(f"{passed} passed, {len(failed)} failed" + (f", {skipped} skipped" if skipped else ""))
    sys.exit(1 if failed else 0)


main()
