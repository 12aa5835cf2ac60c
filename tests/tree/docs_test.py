#!/usr/bin/env python3
"""The documentation is consistent: links have targets, the tests that tables name exist, and README.md's
program is the example that is compiled and run.

Usage: docs_test.py ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
TEST = re.compile(r"`(\w+/\w+): ([^`]+)`")
CASE = re.compile(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)')
PROGRAM = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def cases_of(source):
    """The names of a test program's cases; empty if the program does not exist."""
    text = source.read_text() if source.exists() else ""
    return {"".join(re.findall(r'"([^"]*)"', names)) for names in CASE.findall(text)}


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "lib/README.md", *sorted((root / "docs").rglob("*.md"))]
    found = []
    for page in pages:
        for target in LINK.findall(page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                found.append(f"{page.relative_to(root)}: no {target}")
        for program, case in TEST.findall(page.read_text()):
            if case not in cases_of(root / "tests" / (program + ".cc")):
                found.append(f"{page.relative_to(root)}: {program} has no case: {case}")
    programs = PROGRAM.findall((root / "README.md").read_text())
    if programs != [(root / "docs/examples/first.cc").read_text()]:
        found.append("README.md: its program differs from docs/examples/first.cc")
    print("\n".join(found) or f"{len(pages)} pages checked")
    sys.exit(1 if found else 0)


main()
