#!/usr/bin/env python3
"""Every tracked C and C++ file has the format of clang-format 14, and no line of a tracked file is
too long: 100 columns in code, 120 in documentation.

Usage: format_test.py ROOT
"""

import pathlib
import shutil
import subprocess
import sys

SKIPPED = 77
FORMATTED = {".h", ".hpp", ".cc", ".c"}
CODE_COLUMNS = 100
COLUMNS = dict.fromkeys(FORMATTED | {".py", ".build"}, CODE_COLUMNS) | {".md": 120}


def tracked_files(root):
    """The names of all files that git tracks; None where this is not a git checkout."""
    # The checkout may belong to another user than the one that runs the tests; git only lists
    # names.
    command = ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z"]
    listing = subprocess.run(command, capture_output=True, text=True)
    if listing.returncode != 0:
        return None
    names = [pathlib.Path(name) for name in listing.stdout.split("\0") if name]
    return [name for name in names if (root / name).is_file()]


def columns_of(root, name):
    """How many columns a line of the file may have; None where there is no limit."""
    if not name.suffix and (root / name).read_bytes().startswith(b"#!"):
        return CODE_COLUMNS  # a script
    return COLUMNS.get(name.suffix)


def long_lines(root, name, limit):
    """One line for each line of the file that has too many columns."""
    for number, line in enumerate((root / name).read_text().splitlines(), 1):
        if len(line) > limit:
            yield f"{name}:{number}: {len(line)} columns, at most {limit} are allowed"


def unformatted(root, formatter, names):
    """One line for each file that clang-format would change."""
    command = [formatter, "--dry-run", "-Werror", *names]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True)
    offenders = {line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line}
    found = [f"{name}: clang-format-14 -i would change it" for name in sorted(offenders)]
    return found or ([run.stderr] if run.returncode != 0 else [])


def main():
    root = pathlib.Path(sys.argv[1])
    names = tracked_files(root)
    if names is None:
        print("SKIP: not a git checkout")
        sys.exit(SKIPPED)
    limits = {name: columns_of(root, name) for name in names}
    measured = {name: limit for name, limit in limits.items() if limit}
    found = [fault for name in measured for fault in long_lines(root, name, measured[name])]
    formatter = shutil.which("clang-format-14")
    if formatter:
        found += unformatted(root, formatter, [n for n in names if n.suffix in FORMATTED])
    if not measured:
        found.append("no file was found")
    print("\n".join(found) or f"{len(measured)} files checked")
    if not found and not formatter:
        print("SKIP: no clang-format-14 (package clang-format-14); line lengths were checked")
        sys.exit(SKIPPED)
    sys.exit(1 if found else 0)


main()
