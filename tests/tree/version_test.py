#!/usr/bin/env python3
"""The version that Meson knows is the tool's and the library's, and the first of CHANGELOG.md and
of debian/changelog.

Usage: version_test.py ROOT VERSION TOOL LIBRARY
"""

import pathlib
import re
import subprocess
import sys


def first(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else "no version"


def main():
    root, version, tool, library = pathlib.Path(sys.argv[1]), *sys.argv[2:]
    printed = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    found = {
        "wherry --version": printed.strip(),
        "the library's file": first(r"\.so\.(\d+\.\d+\.\d+)$", library),
        "CHANGELOG.md": first(r"^## (\S+) - \d{4}-\d\d-\d\d$", (root / "CHANGELOG.md").read_text()),
        "debian/changelog": first(r"^wherry \(([^)]+)\)", (root / "debian/changelog").read_text()),
    }
    wrong = [f"{place}: {text}, not {version}" for place, text in found.items() if text != version]
    print("\n".join(wrong) or f"version {version} in {len(found)} places")
    sys.exit(1 if wrong else 0)


main()
