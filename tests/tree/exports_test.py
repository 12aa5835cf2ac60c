#!/usr/bin/env python3
"""libwherry.so exports exactly the functions that the public C headers declare, and
libwherry_interposers.so those of the C library that it replaces. The lists of CUDA's functions
(lib/api/*_functions.txt) are sorted and complete.

Usage: exports_test.py LIBRARY INTERPOSERS INCLUDE API
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"\b((?:cu|wherry)[A-Za-z0-9_]*)\s*\(")
# Functions of the C library that libwherry_interposers.so defines again, so that the application's
# SIGSEGV handlers and the library's can coexist. lib/interposers gives the reason for each.
INTERPOSERS = {
    "mlockall",
    "sigaction", "signal", "bsd_signal", "ssignal", "__sysv_signal", "sysv_signal", "sigset",
    "sigignore", "sigprocmask", "pthread_sigmask", "pthread_attr_setsigmask_np",
    "pthread_attr_getsigmask_np",
    "sighold", "sigrelse", "sigblock", "sigsetmask", "siggetmask",
    "sigsuspend", "ppoll", "__ppoll_chk", "pselect", "epoll_pwait", "epoll_pwait2",
    "sigpending", "sigwait", "sigwaitinfo", "sigtimedwait",
}
# The function by which the library attaches itself to them.
ATTACH = "wherry_interposers_attach"
# Names that CUDA 13 no longer has, or Wherry's names for the signatures of CUDA 12: no program asks
# a CUDA 13 library for them.
CUDA_12 = {"cudaMemAdvise_v1", "cudaMemAdvise_v2", "cudaMemPrefetchAsync_v1",
           "cudaMemPrefetchAsync_v1_ptsz",
           "cudaMemPrefetchAsync_v2", "cudaMemPrefetchAsync_v2_ptsz"}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def exported(library):
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}


def declared(include):
    """The names of functions as the compiler sees them, with the default and with the old names."""
    names = set()
    for header in sorted((include / "wherry").glob("*.h")):
        for flags in ([], ["-DWHERRY_CUDA_API=12"]):
            run = subprocess.run(
                ["cc", "-E", "-P", *flags, "-I", str(include), str(header)],
                capture_output=True, text=True, check=True)
            names |= set(FUNCTION.findall(COMMENT.sub("", run.stdout)))
    return names


def rows(path):
    return [line.split() for line in path.read_text().splitlines() if not line.startswith("#")]


def check_lists(api, have):
    """The errors in the lists."""
    driver, runtime = rows(api / "driver_functions.txt"), rows(api / "runtime_functions.txt")
    keys = [(row[0], int(row[1])) for row in driver]
    found = []
    if keys != sorted(set(keys)) or runtime != sorted(runtime):
        found.append("not sorted")
    symbols = [symbol for row in driver
               for symbol in [row[2], *(f"{row[2]}_{end}" for end in row[3:4])]]
    symbols += [symbol for row in runtime
                for symbol in [row[0], *(f"{row[0]}_{end}" for end in row[1:2])]]
    found += [f"twice: {symbol}"
              for symbol in {each for each in symbols if symbols.count(each) > 1}]
    cuda = {name for name in have if not name.startswith("wherry")}
    found += [f"not listed: {name}" for name in sorted(cuda - set(symbols) - CUDA_12)]
    return [f"lists of functions: {each}" for each in found]


def main():
    library, interposers, include, api = *sys.argv[1:3], *map(pathlib.Path, sys.argv[3:5])
    have, want, interposed = exported(library), declared(include), exported(interposers)
    wrong = check_lists(api, have)
    wrong += [f"exported, but no function of the public headers: {name}" for name in sorted(have)
              if not re.match(r"(cu|wherry)[A-Z]|(__)?cuda[A-Z]", name)]
    wrong += [f"declared, but not exported: {name}" for name in sorted(want - have)]
    wrong += [f"interposed but not listed here, or listed but not interposed: {name}"
              for name in sorted(interposed ^ (INTERPOSERS | {ATTACH}))]
    print("\n".join(wrong))
    print(f"{len(have)} functions exported, {len(want)} declared, {len(INTERPOSERS)} interposed")
    sys.exit(1 if wrong or not have else 0)


main()
