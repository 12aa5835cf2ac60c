#!/usr/bin/env python3
"""Writes a C source with one refusal for each function of a list.

FUNCTIONS is lib/api/driver_functions.txt or runtime_functions.txt. It includes functions that
Wherry has: the dynamic loader finds Wherry's definitions first.

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
    refusals = "".join(f"WHERRY_REFUSE({symbol})\n" for symbol in sorted(symbols))
    pathlib.Path(output).write_text('#include "compat/refusal.h"\n' + refusals)


main()
