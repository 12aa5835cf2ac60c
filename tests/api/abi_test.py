#!/usr/bin/env python3
"""The interface is compatible with the last release's, as far as compiled programs depend on it:
each exported function and variable is still there, and its parameters, the structures in them, and
the values of enumerators have not changed. Functions and enumerators may be added. Values of macros
are not compared.
libwherry.abi describes the last release; docs/decisions/releases.md says when to write it anew.

libabigail compares the declarations in the headers, not the library: that needs no debug
information in the library. That the library exports what is declared, tree/exports_test shows.

Usage: abi_test.py LIB LIBRARY [--renew]
  --renew  writes libwherry.abi
"""

import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
DESCRIPTION = pathlib.Path(__file__).with_name("libwherry.abi")
HEADERS = ("api/compiler_exports.h", "api/exports.h", "api/per_thread_variants.h",
           "wherry/detail/kernel_code.h",
           "wherry/events.h", "wherry/explain.h", "wherry/policy.hpp")
ENUMERATION = re.compile(r"\benum (\w+) \{")


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def describe(lib, library, description, folder):
    """Describes a library with one variable for each exported name, a pointer of its type, and one
    for each enumeration: flags are integers as parameters."""
    names = [line.split()[-1]
             for line in run("nm", "--dynamic", "--defined-only", library).splitlines()]
    headers = [*(lib / "include/wherry").glob("*.h"), *(lib / "include/wherry/detail").glob("*.h")]
    enumerations = sorted({found for header in headers
                           for found in ENUMERATION.findall(header.read_text())})
    variables = [f"decltype(::{name})* {name}_type;\n" for name in names]
    variables += [f"enum {found} {found}_values;\n" for found in enumerations]
    source, compiled = folder / "interface.cc", folder / "interface.so"
    source.write_text("".join(f'#include "{header}"\n' for header in HEADERS) + 'extern "C" {\n'
                      + "".join(variables) + "}\n")
    soname = re.search(r"\(SONAME\).*\[(.*)\]", run("readelf", "-d", library)).group(1)
    run("c++", "-std=c++20", "-g", "-shared", "-fPIC", f"-Wl,-soname,{soname}", "-I", lib,
        "-I", lib / "include", "-I", pathlib.Path(library).parent, source, "-o", compiled)
    run("abidw", "--headers-dir", lib / "include", "--drop-private-types", "--no-corpus-path",
        "--no-comp-dir-path", "--no-show-locs", "--no-architecture", "--type-id-style", "hash",
        "--out-file", description, compiled)


def main():
    lib, library = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]
    if not shutil.which("abidiff"):
        print("SKIP: no abidiff (package abigail-tools): tools/setup test")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if "--renew" in sys.argv:
            return describe(lib, library, DESCRIPTION, folder)
        now = folder / "now.abi"
        describe(lib, library, now, folder)
        difference = subprocess.run(["abidiff", "--no-added-syms", DESCRIPTION, now],
                                    capture_output=True, text=True)
    if "incompatible format version" in difference.stderr + difference.stdout:
        print(f"SKIP: this abidiff cannot compare with {DESCRIPTION.name}, whose format is older")
        sys.exit(SKIPPED)
    if difference.returncode:
        print(difference.stdout + difference.stderr)
        sys.exit("The interface is not compatible with the last release's; "
                 "docs/decisions/releases.md says what to do.")
    print("compatible with the last release")


main()
