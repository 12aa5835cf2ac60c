#!/usr/bin/env python3
"""Runs test programs in an emulated machine with three NUMA nodes, of which the third has no CPUs.

Usage: run.py [--kernel FOLDER] [--limit SECONDS] [--file FILE]... PROGRAM [ARGUMENT...]
              [+ PROGRAM [ARGUMENT...]]...

Builds a root file system from busybox, the programs, further files (--file: what a program starts,
loads or reads) and the shared libraries that these need, each at the same path as here, and boots
it with the kernel in FOLDER (tools/setup kernel puts one into build/guest). It runs each program in
turn, also after one has failed; below full length a part of them (support/length.py). Prints the
output of each and exits with 1 if one failed, else with 77 if one was skipped or the machine cannot
be built here, else with 0.
Placement and residency in the machine are meaningful, timings are not.
"""

import argparse
import glob
import os
import pathlib
import shutil
import sys

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS.parent / "tools"), str(TESTS / "support")]
from length import some_of  # noqa: E402  (the line above finds these)
from machines import emulated  # noqa: E402

SKIPPED = 77

OPTIONS = [
    *emulated.EMULATED_PC, "-m", "1536M", "-smp", "4",
    "-object", "memory-backend-ram,id=m0,size=512M",
    "-object", "memory-backend-ram,id=m1,size=512M",
    "-object", "memory-backend-ram,id=m2,size=512M",
    "-numa", "node,nodeid=0,memdev=m0,cpus=0-1",
    "-numa", "node,nodeid=1,memdev=m1,cpus=2-3",
    "-numa", "node,nodeid=2,memdev=m2",
    "-numa", "dist,src=0,dst=1,val=21",
    "-numa", "dist,src=0,dst=2,val=30",
    "-numa", "dist,src=1,dst=2,val=30",
]


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def tool(name, package):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return shutil.which(name, path=path) or skip(f"no {name} (package {package})")


def split(words, separator):
    """The lists of words between the separators."""
    lists = [[]]
    for word in words:
        if word == separator:
            lists.append([])
        else:
            lists[-1].append(word)
    return lists


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--kernel", default="build/guest")
    parser.add_argument("--limit", type=float, default=240)
    parser.add_argument("--file", action="append", default=[], dest="files")
    parser.add_argument("commands", nargs=argparse.REMAINDER, metavar="PROGRAM [ARGUMENT...]")
    options = parser.parse_args()
    commands = split(options.commands, "+")
    if not all(commands):
        parser.error("a program is missing")
    commands = some_of(commands, "programs in the emulated machine", below_full=0.3)
    environment = {name: value for name, value in os.environ.items()
                   if name.startswith("WHERRY_")}

    qemu = tool("qemu-system-x86_64", "qemu-system-x86")
    busybox = tool("busybox", "busybox-static")
    tool("cpio", "cpio")
    kernels = sorted(glob.glob(f"{options.kernel}/boot/vmlinuz-*"))
    if not kernels:
        skip(f"no kernel for the virtual machine in {options.kernel} (tools/setup kernel)")

    # In the build folder, where there is room: /tmp may be memory.
    outcome = emulated.run(
        emulated.Machine(qemu, OPTIONS, kernels[-1], busybox),
        [emulated.Command(command) for command in commands], options.files, environment,
        options.limit, options.kernel)
    if not outcome.began:
        sys.exit(1)

    names = [" ".join([pathlib.Path(program).name, *words]) for program, *words in commands]
    for name, ended in zip(names, outcome.ended):
        print(f"== {name}\n{ended.output}", end="")
    if len(outcome.ended) < len(commands):
        print(f"== {names[len(outcome.ended)]}\n{outcome.rest}")
        late = f"the limit of {options.limit:g} s passed"
        why = "the virtual machine stopped" if outcome.in_time else late
        print(f"\n{why} before the programs had ended; the kernel's last words:")
        print(outcome.last_words(40))
        sys.exit(1)
    if outcome.complaint():
        print(f"\nthe kernel complained:\n{outcome.console}")
    codes = [ended.code for ended in outcome.ended]
    failed = [name for name, code in zip(names, codes) if code not in (0, SKIPPED)]
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
        sys.exit(1)
    sys.exit(SKIPPED if SKIPPED in codes else 0)


main()
