"""What tools/package has built."""

import pathlib
import shutil
import sys

SKIPPED = 77


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def need(program):
    """Skips the test where a program is not installed."""
    if not shutil.which(program):
        skip(f"no {program}: tools/setup package")


def packages(root):
    """The folder with the packages; skips the test where there are none."""
    folder = pathlib.Path(root) / "build/packages"
    if not list(folder.glob("*.changes")):
        skip("no Debian packages: tools/package builds them")
    return folder
