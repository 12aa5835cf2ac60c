#!/usr/bin/env python3
"""libcuda.so.1 answers as a real driver did: ../shared/oracle beside the project holds a program that makes some thousand calls
with every edge of their arguments, and what the driver answered.

Every answer that differs must be in docs/differences.md, where the first cells of a table have patterns of case names; and so many must be
equal that REQUIRED_SHARE is reached.

Usage: oracle_test.py ROOT COMPAT CC...
"""

import fnmatch
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SKIPPED = 77
REQUIRED_SHARE = 0.98
# As many devices as the driver's machine had.
SETTINGS = {"WHERRY_DEVICES": "capacity=2G"}
GROUPS = "noctx alloc adv advkind range rattrs prefetch pointer memkinds copy stream batch".split()
ROW = re.compile(r"^\|([^|]*)\|", re.MULTILINE)


def build(sources, root, compat, compiler, folder):
    include = ["-I", str(root / "lib/include"), "-I", str(root / "lib/include/wherry")]
    library = pathlib.Path(compat, "libcuda.so.1")
    others = sorted(path for path in sources.glob("*.c") if path.name != "touch.c")
    for command in (
            [*compiler, "-O1", "-w", *include, *others, library, "-o", folder / "oracle"],
            [*compiler, "-O1", "-w", *include, "-shared", "-fPIC", sources / "touch.c", "-o", folder / "touch.so"]):
        run = subprocess.run(command, capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"{' '.join(map(str, command))}\n{run.stderr[-4000:]}")


def answers(lines):
    """case -> (result, values)."""
    cases = {}
    for line in lines:
        words = line.rstrip("\n").split("\t")
        if len(words) >= 3 and not line.startswith("#"):
            cases[words[0]] = (words[2], words[3].strip() if len(words) > 3 else "")
    return cases


def explained_patterns(page):
    """Those of the table whose first column is "cases"."""
    table = page.read_text().split("\n| cases |", 1)[1].split("\n\n", 1)[0]
    return [pattern for cell in ROW.findall(table) for pattern in re.findall(r"`([^`]+)`", cell)]


def main():
    root, compat, compiler = pathlib.Path(sys.argv[1]), sys.argv[2], sys.argv[3:]
    oracle = root.parent / "shared/oracle"
    if not os.path.isdir(oracle / "src"):  # also where it may not be looked at
        print("SKIP: no ../shared/oracle beside the project")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        build(oracle / "src", root, compat, compiler, folder)
        # Whoever tests may have GPUs to choose from.
        os.environ.pop("CUDA_VISIBLE_DEVICES", None)
        environment = os.environ | SETTINGS | {"LD_LIBRARY_PATH": compat, "ORACLE_MODULE": str(folder / "touch.so")}
        run = subprocess.run([folder / "oracle", *GROUPS], env=environment, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True, errors="replace")
    expected = answers(next(oracle.glob("driver-*-h100.tsv")).read_text().splitlines())
    got = answers(run.stdout.splitlines())

    different = {case: (answer, got.get(case, ("missing", "")))
                 for case, answer in expected.items() if got.get(case) != answer}
    patterns = explained_patterns(root / "docs/differences.md")
    unexplained = [case for case in different if not any(fnmatch.fnmatchcase(case, pattern) for pattern in patterns)]
    unused = [pattern for pattern in patterns if not fnmatch.filter(different, pattern)]
    share = 1 - len(different) / len(expected)

    for case in unexplained:
        (want, want_values), (have, have_values) = different[case]
        print(f"{case}\n    driver: {want} {want_values}\n    here:   {have} {have_values}")
    for pattern in unused:
        print(f"docs/differences.md: {pattern} does not differ here")
    print(run.stderr[-4000:])
    print(f"equal {len(expected) - len(different)} of {len(expected)} = {share:.1%}, at least {REQUIRED_SHARE:.1%} asked for; "
          f"{len(different) - len(unexplained)} differences explained, {len(unexplained)} not")
    sys.exit(1 if unexplained or share < REQUIRED_SHARE else 0)


main()
