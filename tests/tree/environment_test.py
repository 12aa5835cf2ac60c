#!/usr/bin/env python3
"""Every environment variable is a row of lib/base/environment.h and is described in docs/tuning.md,
and no other code of the library or the tools reads the environment.

Usage: environment_test.py ROOT
"""

import pathlib
import re
import sys

ROW = re.compile(r'^    \{"(\w+)", (true|false),', re.MULTILINE)
DESCRIBED = re.compile(r"^(?:## |- `)([A-Z][A-Z0-9]*_[A-Z_]+|HOME|PATH|TERM)\b", re.MULTILINE)
PRIVILEGED = re.compile(r"^## Privileged programs\n(.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE)
READS = re.compile(r"\b(?:secure_)?getenv\s*\(")
SOURCES = {".h", ".cc", ".c", ".hpp"}
THE_READER = "lib/base/environment.cc"


def main():
    root = pathlib.Path(sys.argv[1])
    rows = dict(ROW.findall((root / "lib/base/environment.h").read_text()))
    page = (root / "docs/tuning.md").read_text()
    described = set(DESCRIBED.findall(page))
    found = [f"docs/tuning.md does not describe {name}" for name in sorted(rows.keys() - described)]
    found += [f"lib/base/environment.h has no {name}, which docs/tuning.md describes"
              for name in sorted(described - rows.keys())]

    not_read = {name for name, read in rows.items() if read == "false"}
    section = PRIVILEGED.search(page)
    named = set(re.findall(r"`(\w+)`", section.group(1))) & rows.keys() if section else set()
    for name in sorted(not_read ^ named):
        fault = "missing" if name in not_read else "read there, too"
        found.append(f"docs/tuning.md, Privileged programs: {name} is {fault}")

    for folder in ("lib", "tools"):
        for path in sorted((root / folder).rglob("*")):
            place = str(path.relative_to(root))
            if path.suffix not in SOURCES or place == THE_READER:
                continue
            if READS.search(path.read_text()):
                found.append(f"{place} reads the environment by itself: "
                             "add a row to lib/base/environment.h")
    if len(rows) < 10:
        found.append("the rows of lib/base/environment.h were not recognized")
    print("\n".join(found) or f"{len(rows)} variables, all described")
    sys.exit(1 if found else 0)


main()
