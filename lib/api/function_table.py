#!/usr/bin/env python3
"""Writes the table in which cuGetProcAddress looks, as C++: rows of driver_functions.txt with the
addresses.

What exports.h declares exists, and is referred to, so that a program linked with the static library
has it. The rest is found where compat/ stands in for it, and is null elsewhere.

Usage: function_table.py FUNCTIONS EXPORTS OUTPUT DEPFILE CC...
"""

import pathlib
import re
import subprocess
import sys


def rows(path):
    """Each row's words."""
    return [line.split() for line in pathlib.Path(path).read_text().splitlines()
            if not line.startswith("#")]


def declared(header, output, depfile, compiler):
    command = [*compiler, "-E", "-P", "-MD", "-MF", depfile, "-MT", output, "-x", "c", header]
    return set(re.findall(r"\bcu\w+(?=\s*\()",
                          subprocess.run(command, capture_output=True, text=True,
                                         check=True).stdout))


def main():
    functions, exports, output, depfile, *compiler = sys.argv[1:]
    known = declared(exports, output, depfile, compiler)
    declarations, entries = [], []
    for name, version, symbol, *own in rows(functions):
        own_stream = [f"{symbol}_{own[0]}"] if own else []
        for each in [symbol, *own_stream]:
            declarations.append(f"{'' if each in known else '[[gnu::weak]] '}void {each}();")
        addresses = [f"&{each}" for each in [symbol, *own_stream]] + ["nullptr"]
        own_version = own[1] if own else 0
        entries.append(f'    {{"{name}", {version}, {addresses[0]}, {own_version}, '
                       f'{addresses[1]}}},')
    pathlib.Path(output).write_text("\n".join([
        "// Made by function_table.py.",
        '#include "api/driver_functions.h"',
        'extern "C" {', *declarations, "}",
        "namespace wherry::impl {",
        "namespace {", "constexpr DriverFunction table[] = {", *entries, "};", "}  // namespace",
        "const std::span<const DriverFunction> driver_functions = table;",
        "}  // namespace wherry::impl", ""]))


main()
