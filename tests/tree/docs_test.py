#!/usr/bin/env python3
"""The documentation holds together: links lead somewhere, and README.md's program is the example that is compiled and run.

Usage: docs_test.py ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
PROGRAM = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [root / "README.md", root / "CONTRIBUTING.md", root / "lib/README.md", *sorted((root / "docs").rglob("*.md"))]
    found = []
    for page in pages:
        for target in LINK.findall(page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                found.append(f"{page.relative_to(root)}: no {target}")
    programs = PROGRAM.findall((root / "README.md").read_text())
    if programs != [(root / "docs/examples/first.cc").read_text()]:
        found.append("README.md: its program differs from docs/examples/first.cc")
    print("\n".join(found) or f"{len(pages)} pages looked at")
    sys.exit(1 if found else 0)


main()
