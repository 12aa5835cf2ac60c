#!/usr/bin/env python3
"""Every tracked C and C++ file is formatted by clang-format 14.

Usage: format_test.py ROOT
"""

import shutil
import subprocess
import sys

SKIPPED = 77


def main():
    root = sys.argv[1]
    formatter = shutil.which("clang-format-14")
    if not formatter:
        print("SKIP: no clang-format-14 (package clang-format-14)")
        sys.exit(SKIPPED)
    # The tree may belong to another user than the one who runs the test; only names are read.
    listing = subprocess.run(
        ["git", "-c", f"safe.directory={root}", "-C", root, "ls-files", "-z", "*.h", "*.hpp", "*.cc", "*.c"],
        capture_output=True, text=True)
    if listing.returncode != 0:
        print("SKIP: not a git checkout")
        sys.exit(SKIPPED)
    files = [name for name in listing.stdout.split("\0") if name]
    run = subprocess.run([formatter, "--dry-run", "-Werror", *files], cwd=root, capture_output=True, text=True)
    offenders = sorted({line.split(":")[0] for line in run.stderr.splitlines() if ": error:" in line})
    for name in offenders:
        print(f"{name}: clang-format-14 -i would change it")
    print(f"{len(files)} files checked, {len(offenders)} differ")
    sys.exit(1 if run.returncode != 0 or not files else 0)


main()
