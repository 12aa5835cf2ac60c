#!/usr/bin/env python3
"""The surroundings that programs with managed memory run in, one row each: what surrounds the program, what it does there
(workload.c, loader.c), and what must be true afterwards. Each row runs with the trap that the library chooses and with mprotect.

Usage: matrix.py --list
       matrix.py ROW [--trap mprotect] --programs FOLDER --libraries FOLDER --confine PROGRAM

Exit status: 0, 1 with what is wrong, or 77 with the reason why this machine cannot make these surroundings.
"""

import argparse
import dataclasses
import pathlib
import re
import resource
import sys

from surroundings import Skip, as_pid_1, as_subreaper, closed, full_stderr, limit, may_be_debugged, on_cpus, run, under_gdb, wrapped

SKIPPED = 77
MIB = 1 << 20
GIB = 1 << 30
LIFE = ("init", "life", "children")
SMALL = "capacity=4M,workers=2;capacity=8M,workers=1"


@dataclasses.dataclass
class Row:
    name: str
    around: tuple = ()           # surroundings.py
    steps: tuple = LIFE          # of workload.c, or the libraries that loader.c loads
    program: str = "workload"
    devices: str = SMALL         # WHERRY_DEVICES
    expect: object = None        # a function of the End that returns what is wrong; None: every step is done
    seconds: float = 60          # of the watchdog


# ---- what must be true: each of these returns a list of what is wrong

def all_done(row, end):
    wrong = [] if end.status == 0 else [f"it ended with {end.status}"]
    return wrong + [f"'{step}' was not done" for step in row.steps
                    if row.program == "workload" and f"{step} ok" not in end.stdout.splitlines()]


def refused(*words):
    """The program is told so by an error, and the log says why."""
    def expect(row, end):
        wrong = [] if end.status == 3 else [f"it ended with {end.status}, not with a refusal"]
        return wrong + [f"the log does not say '{word}'" for word in words if not re.search(word, end.stderr)]
    return expect


def done_or_refused(*words):
    def expect(row, end):
        return refused(*words)(row, end) if end.status == 3 else all_done(row, end)
    return expect


def number(end, name):
    found = re.findall(rf"\b{name}=(\d+)", end.stdout)
    return int(found[-1]) if found else None


def at_most(name, most):
    def expect(row, end):
        value = number(end, name)
        return all_done(row, end) + ([] if value is not None and value <= most else [f"{name} is {value}, more than {most}"])
    return expect


def says(*words):
    def expect(row, end):
        return all_done(row, end) + [f"the output does not say '{word}'" for word in words if not re.search(word, end.stdout)]
    return expect


def silent(row, end):
    return all_done(row, end) + ([f"it said: {end.stderr}"] if end.stderr else [])


ROWS = [
    Row("plain"),
    # Limits of the process.
    Row("few_descriptors", (limit(resource.RLIMIT_NOFILE, 40),), expect=done_or_refused("descriptor|RLIMIT_NOFILE|open files")),
    # Who started it, and where.
    Row("pid_1", (as_pid_1,)),
    Row("subreaper", (as_subreaper,)),
    Row("one_cpu", (on_cpus(0),)),
    Row("strace", (wrapped("strace", "-f", "-o", "/dev/null"),), seconds=240),
    # Debuggers. What gdb says is among the output.
    Row("gdb", (under_gdb,), seconds=240),
    Row("gdb_attached", (may_be_debugged,), ("init", "life", "debugged=host", "life"), expect=says("debugger=0", r"#0 .*\n"),
        seconds=240),
    Row("valgrind", (wrapped("valgrind", "--tool=none"),), expect=refused("cannot start in valgrind"), seconds=240),
    # Standard streams.
    Row("closed_stderr", (closed(2),)),
    Row("full_stderr", (full_stderr,)),
    # Libraries that the program loads and unloads.
    Row("dlclose_libwherry", steps=("libwherry.so.0",), program="loader"),
    Row("dlclose_libcuda", steps=("compat/libcuda.so.1",), program="loader"),
    Row("dlclose_libcudart", steps=("compat/libcudart.so.13",), program="loader"),
    Row("dlclose_libwherry_io", steps=("io/libwherry_io.so.0",), program="loader"),
    Row("dlclose_all", steps=("compat/libcudart.so.13", "io/libwherry_io.so.0", "compat/libcuda.so.1", "libwherry.so.0"),
        program="loader"),
    # Sandboxes.
    Row("no_new_privileges", (wrapped("setpriv", "--no-new-privs"),)),
]


def complaints(row, end):
    wrong = (row.expect or all_done)(row, end)
    if end.status is None:
        wrong.insert(0, f"it hung: the watchdog ended it after {end.seconds:.0f} s")
    if end.left:
        wrong.append(f"processes were left: {', '.join(end.left)}")
    held = number(end, "held")
    if held:
        wrong.append(f"the pools held {held} bytes when all memory was freed")
    return wrong


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("row", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--trap")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--libraries", type=pathlib.Path)
    parser.add_argument("--confine")
    options = parser.parse_args()
    if options.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    row, = (row for row in ROWS if row.name == options.row)
    variables = {"WHERRY_DEVICES": row.devices, "WHERRY_TEST_CONFINE": options.confine or ""}
    if options.trap:
        variables["WHERRY_TRAP"] = options.trap
    steps = row.steps if row.program == "workload" else [str(options.libraries.resolve() / library) for library in row.steps]
    command = [str(options.programs.resolve() / f"surroundings_{row.program}"), *steps]
    try:
        with run(command, row.around, variables, row.seconds) as end:
            wrong = complaints(row, end)
            print(end.stdout, end.stderr, sep="")
            print(f"{row.name}: ended with {end.status} after {end.seconds:.2f} s")
    except Skip as reason:
        print(f"SKIP: {reason}")
        return SKIPPED
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
