#!/usr/bin/env python3
"""The documentation is consistent: links and their anchors exist, the tests that pages name exist,
docs/stats.md explains every counter, and README.md's program is the example that is compiled and
run.

Usage: docs_test.py ROOT
"""

import pathlib
import re
import sys

LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
TEST = re.compile(r"`(\w+/\w+): ([^`]+)`")
CASE = re.compile(r'TEST_CASE\(\s*((?:"[^"]*"\s*)+)')
COUNTER = re.compile(r"^  X\((\w+)\)", re.MULTILINE)
PROGRAM = re.compile(r"^```cpp\n(.*?)^```$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


def cases_of(source):
    """The names of a test program's cases; empty if the program does not exist."""
    text = source.read_text() if source.exists() else ""
    return {"".join(re.findall(r'"([^"]*)"', names)) for names in CASE.findall(text)}


def anchors_of(page):
    """The anchors that GitHub gives to the page's headings."""
    headings = (re.sub(r"[^\w\- ]", "", title.lower())
                for title in HEADING.findall(page.read_text()))
    return {title.replace(" ", "-") for title in headings}


def broken_links(page):
    for target, anchor in LINK.findall(page.read_text()):
        if "://" in target:
            continue
        linked = page.parent / target if target else page
        if not linked.exists():
            yield f"no {target}"
        elif anchor and anchor not in anchors_of(linked):
            yield f"no heading of {linked.name} has the anchor {anchor}"


def missing_cases(page, tests):
    for program, case in TEST.findall(page.read_text()):
        name = " ".join(case.split())  # the page may break the line within a name
        if name not in cases_of(tests / (program + ".cc")):
            yield f"no case of {program} is named: {name}"


def unexplained_counters(root):
    counters = COUNTER.findall((root / "lib/memory/counters.h").read_text())
    if not counters:
        yield "lib/memory/counters.h: no counters found"
    stats = (root / "docs/stats.md").read_text()
    for name in counters:
        if not re.search(rf"^- \*\*.*`{name}`.*\*\*", stats, re.MULTILINE):
            yield f"docs/stats.md: no item explains {name}"


def main():
    root = pathlib.Path(sys.argv[1])
    pages = [root / name for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md",
                                     "lib/README.md")]
    pages += sorted((root / "docs").rglob("*.md"))
    found = []
    for page in pages:
        name = page.relative_to(root)
        found += [f"{name}: {fault}" for fault in broken_links(page)]
        found += [f"{name}: {fault}" for fault in missing_cases(page, root / "tests")]
    found += unexplained_counters(root)
    programs = PROGRAM.findall((root / "README.md").read_text())
    if programs != [(root / "docs/examples/first.cc").read_text()]:
        found.append("README.md: its program differs from docs/examples/first.cc")
    print("\n".join(found) or f"{len(pages)} pages checked")
    sys.exit(1 if found else 0)


main()
