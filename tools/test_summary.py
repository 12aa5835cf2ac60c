#!/usr/bin/env python3
"""Sums up what Meson's test logs say: each failure, each skip with its reason, and in the last line how many of each.

Usage: test_summary.py NAME=BUILD...
A build without a log did not get as far as its tests and counts as one failure; so does each error that a sanitizer has
reported in the build's reports folder, also from a process whose end the test expected. Exits 0 when nothing failed.
"""

import json
import pathlib
import sys


def reason_of(test):
    """Why a test was skipped: its own last word on it."""
    lines = [line for line in test.get("stdout", "").splitlines() if line.startswith("SKIP: ")]
    return lines[-1].removeprefix("SKIP: ") if lines else "no reason given"


def sanitizer_errors(build):
    """One line for each report of an error; warnings of the sanitizers are none."""
    for report in sorted((pathlib.Path(build) / "reports").glob("*")):
        for line in report.read_text(errors="replace").splitlines():
            if "ERROR: " in line or "runtime error: " in line:
                yield f"{line} ({report})"
                break


def main():
    passed, failed, skipped = 0, [], []
    for flavour in sys.argv[1:]:
        name, _, build = flavour.partition("=")
        log = pathlib.Path(build) / "meson-logs/testlog.json"
        tests = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
        if not tests:
            failed.append(f"{name}: did not get as far as its tests")
        failed += [f"{name}: {line}" for line in sanitizer_errors(build)]
        for test in tests:
            label = f"{name}: {test['name']}"
            if test["result"] in ("OK", "EXPECTEDFAIL"):
                passed += 1
            elif test["result"] == "SKIP":
                skipped.append(f"{label}: {reason_of(test)}")
            else:
                failed.append(f"{label}: {test['result']} after {test['duration']:.0f} s")

    for line in failed:
        print(f"FAILED   {line}")
    for line in skipped:
        print(f"skipped  {line}")
    print(f"{passed} passed, {len(failed)} failed" + (f", {len(skipped)} skipped" if skipped else ""))
    sys.exit(1 if failed else 0)


main()
