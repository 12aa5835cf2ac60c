#!/usr/bin/env python3
"""Each library exports what it should, and nothing else:
- libwherry.so the functions and variables that the public headers declare, and the symbols of older
  CUDA versions in the lists of CUDA's functions (lib/api/*_functions.txt);
- libcuda.so and libcudart.so every function of their list;
- the others the names in their symbol map (lib/*/NAME.map).
The lists are sorted, and contain every function of CUDA that libwherry.so exports.

Usage: exports_test.py LIB LIBRARY OTHER-LIBRARY...
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"\b((?:cu|cuda|wherry)[A-Z]\w*)\s*\(")
INLINE = re.compile(r"\bstatic inline [^;{(]*?(\w+)\(")
VARIABLE = re.compile(r"\bextern __thread [^;]*?\b(wherry\w+) __attribute__")
# Names that CUDA 13 no longer has, or Wherry's names for the signatures of CUDA 12: no program asks
# a CUDA 13 library for them.
CUDA_12 = {"cudaMemAdvise_v1", "cudaMemAdvise_v2", "cudaMemPrefetchAsync_v1",
           "cudaMemPrefetchAsync_v1_ptsz",
           "cudaMemPrefetchAsync_v2", "cudaMemPrefetchAsync_v2_ptsz"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*|#[^\n]*", re.DOTALL)
# The headers as C programs see them by default, with the older names, and with those for the
# calling thread's stream; and as C++ programs see them.
FORMS = (["c"], ["c", "-DWHERRY_CUDA_API=12"], ["c", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"],
         ["c++", "-std=c++20"])


def exported(library):
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], capture_output=True, text=True, check=True)
    # Without the version nodes themselves (A).
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()
            if line.split()[-2] != "A"}


def declared(include):
    """The names of functions and variables as the compiler sees them."""
    folder = include / "wherry"
    names = set()
    for language, *flags in FORMS:
        headers = [*folder.glob("*.h"), *(folder / "detail").glob("*.h")]
        if language == "c++":
            headers += folder.glob("*.hpp")
        source = "".join(f'#include "{header}"\n' for header in sorted(headers))
        text = subprocess.run(["cc", "-x", language, *flags, "-E", "-P", "-I", str(include), "-"],
                              input=source, capture_output=True, text=True, check=True).stdout
        names |= set(FUNCTION.findall(text)) | set(VARIABLE.findall(text))
        names -= set(INLINE.findall(text))
    return names


def mapped(library, lib):
    """The names in the library's symbol map, which lists each of them."""
    name = re.match(r"lib(\w+)\.so", library.name).group(1)
    text = COMMENT.sub("", next(lib.rglob(f"{name}.map")).read_text())
    return set(re.findall(r"\w+", text.split("global:")[1].split("local:")[0]))


def rows(path):
    return [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]


def symbols_of(rows_of_list, column):
    """The symbols in a list: each row's own, and its form for the calling thread's stream."""
    return [symbol for row in rows_of_list
            for symbol in [row[column], *(f"{row[column]}_{end}" for end in row[column + 1:][:1])]]


def check_lists(driver, runtime, have):
    """The errors in the lists."""
    keys = [(row[0], int(row[1])) for row in driver]
    found = []
    if keys != sorted(set(keys)) or runtime != sorted(runtime):
        found.append("not sorted")
    symbols = symbols_of(driver, 2) + symbols_of(runtime, 0)
    found += [f"twice: {symbol}"
              for symbol in {each for each in symbols if symbols.count(each) > 1}]
    cuda = {name for name in have if not name.startswith("wherry")}
    found += [f"not listed: {name}" for name in sorted(cuda - set(symbols) - CUDA_12)]
    return [f"lists of functions: {each}" for each in found]


def differences(library, have, want):
    return [f"{library.name} lacks {name}" for name in sorted(want - have)] + [
        f"{library.name} exports {name}" for name in sorted(have - want)]


def main():
    lib, library, *others = map(pathlib.Path, sys.argv[1:])
    have, want = exported(library), declared(lib / "include")
    driver = rows(lib / "api/driver_functions.txt")
    runtime = rows(lib / "api/runtime_functions.txt")
    wrong = check_lists(driver, runtime, have)
    # check_lists() has looked at CUDA's functions that no header declares.
    undeclared = {name for name in have - want if not name.startswith("wherry")}
    wrong += differences(library, have - undeclared, want)
    for other in others:
        lists = {"libcuda.so": (driver, 2), "libcudart.so": (runtime, 0)}
        listed = lists.get(other.name.partition(".so")[0] + ".so")
        names = set(symbols_of(*listed)) if listed else mapped(other, lib)
        wrong += differences(other, exported(other), names)
    print("\n".join(wrong))
    print(f"{len(have)} functions exported, {len(want)} declared; {len(others)} other libraries")
    sys.exit(1 if wrong or not have else 0)


main()
