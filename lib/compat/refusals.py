#!/usr/bin/env python3
"""Writes a refusal for each function of a list, as C: lib/api/driver_functions.txt or
runtime_functions.txt.

Also for those that Wherry has: which one a program finds is decided when it is loaded, and Wherry's
come first.

Usage: refusals.py FUNCTIONS OUTPUT
"""

import pathlib
import sys


def main():
    functions, output = sys.argv[1:]
    symbols = set()
    for line in pathlib.Path(functions).read_text().splitlines():
        if line.startswith("#"):
            continue
        words = line.split()
        symbol, own = (words[2], words[3:4]) if len(words) > 2 else (words[0], words[1:2])
        symbols |= {symbol, *(f"{symbol}_{ending}" for ending in own)}
    pathlib.Path(output).write_text(
        '#include "compat/refusal.h"\n'
        + "".join(f"WHERRY_REFUSE({symbol})\n" for symbol in sorted(symbols)))


main()
