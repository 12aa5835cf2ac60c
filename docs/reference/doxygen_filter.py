#!/usr/bin/env python3
"""Prints a header with its comments in the form that Doxygen reads. The headers themselves have
plain comments: what is meant for their reader is meant for the reference, too.

Usage: doxygen_filter.py FILE
"""

import re
import sys

SPECIAL = re.compile(r"([\\@<>#&%])")
# A comment of its own, unless it only divides the file ("---- Devices ----").
OPENING = re.compile(r"(\s*)(/\*|//)(?! ----)(?![/*])(.*)")
TRAILING = re.compile(r'([^"]*\S\s*)(/\*|//) (.*)')
OF_LIST = re.compile(r" \*   (- |  \S)")


def escaped(comment):
    return SPECIAL.sub(r"\\\1", comment)


def main():
    first, inside, in_list = True, False, False
    for line in open(sys.argv[1], encoding="utf-8").read().splitlines():
        opening, trailing = OPENING.match(line), TRAILING.match(line)
        if inside:
            # Parameters are indented more than errors; Doxygen would take them for one list.
            item = OF_LIST.match(line)
            in_list = item is not None and (in_list or item[1] == "- ")
            print(escaped(line.replace(" *   ", " * ", 1) if in_list else line))
            inside = "*/" not in line
        elif opening:
            space, mark, said = opening.groups()
            of_file = " \\file\n" if first else ""
            print(space + {"/*": "/**", "//": "///"}[mark] + of_file, end="")
            print(("///" if of_file and mark == "//" else "") + escaped(said))
            first, inside = False, mark == "/*" and "*/" not in said
        elif trailing:
            code, mark, said = trailing.groups()
            print(code + {"/*": "/**< ", "//": "///< "}[mark] + escaped(said))
            inside = mark == "/*" and "*/" not in said
        else:
            print(line)


main()
