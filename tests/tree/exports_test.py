#!/usr/bin/env python3
"""The shared library exports the functions that the public C headers declare and those that it puts before the C library's,
and nothing else.

Usage: exports_test.py LIBRARY INCLUDE
"""

import pathlib
import re
import subprocess
import sys

FUNCTION = re.compile(r"\b((?:cu|wherry)[A-Za-z0-9_]*)\s*\(")
# Defined once more for the whole program, so that the application's SIGSEGV handlers and the library's live side by side.
# lib/os/signal_interposers.cc says why each is there.
INTERPOSERS = {
    "sigaction", "signal", "bsd_signal", "ssignal", "__sysv_signal", "sysv_signal", "sigset", "sigignore",
    "sigprocmask", "pthread_sigmask", "pthread_attr_setsigmask_np", "pthread_attr_getsigmask_np",
    "sighold", "sigrelse", "sigblock", "sigsetmask", "siggetmask",
    "sigsuspend", "ppoll", "__ppoll_chk", "pselect", "epoll_pwait", "epoll_pwait2",
    "sigpending", "sigwait", "sigwaitinfo", "sigtimedwait",
}
COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)


def exported(library):
    listing = subprocess.run(
        ["nm", "--dynamic", "--defined-only", library], capture_output=True, text=True, check=True)
    return {line.split()[-1].split("@")[0] for line in listing.stdout.splitlines()}


def declared(include):
    """Names of functions as the compiler sees them, with the default and with the old names."""
    names = set()
    for header in sorted((include / "wherry").glob("*.h")):
        for flags in ([], ["-DWHERRY_CUDA_API=12"]):
            run = subprocess.run(
                ["cc", "-E", "-P", *flags, "-I", str(include), str(header)],
                capture_output=True, text=True, check=True)
            names |= set(FUNCTION.findall(COMMENT.sub("", run.stdout)))
    return names


def main():
    library, include = sys.argv[1], pathlib.Path(sys.argv[2])
    have, want = exported(library), declared(include) | INTERPOSERS
    strangers = sorted(name for name in have - INTERPOSERS if not re.match(r"(cu|wherry)[A-Z]|cuda[A-Z]", name))
    missing = sorted(want - have)
    for name in strangers:
        print(f"exported, but no function of the public headers and no interposer: {name}")
    for name in missing:
        print(f"declared or to be interposed, but not exported: {name}")
    print(f"{len(have)} functions exported, {len(want) - len(INTERPOSERS)} declared, {len(INTERPOSERS)} interposed")
    sys.exit(1 if strangers or missing or not have else 0)


main()
