#!/usr/bin/env python3
"""lintian finds no errors and no warnings in the Debian packages.

Usage: lintian_test.py ROOT
"""

import subprocess
import sys

import built


def main():
    built.need("lintian")
    changes = next(built.packages(sys.argv[1]).glob("*.changes"))
    run = subprocess.run(["lintian", "--allow-root", "--fail-on=error,warning", "--info", changes],
                         capture_output=True, text=True)
    print(run.stdout + run.stderr)
    sys.exit(1 if run.returncode else 0)


main()
