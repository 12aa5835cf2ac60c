#!/usr/bin/env python3
"""The surroundings in which programs with managed memory run, one row each: the surroundings, the
program's steps (workload.c, loader.c), and the expected results. Each row runs with the trap that
the library chooses and with mprotect; below full length with one of them.

Usage: matrix.py --list
       matrix.py ROW --programs FOLDER --libraries FOLDER --confine PROGRAM

Exit status: 0, 1 with the errors, or 77 with the reason why this machine cannot make these
surroundings.
"""

import argparse
import dataclasses
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import some_of  # noqa: E402
from surroundings import (Skip, as_pid_1, as_root, as_subreaper, as_user, closed, confined,
                          environment, full_stderr, in_cgroup, in_chroot, limit, may_be_debugged,
                          on_cpus, run, under_gdb, with_cores, wrapped)

SKIPPED = 77
TRAPS = ("auto", "mprotect")
MIB = 1 << 20
GIB = 1 << 30
LIFE = ("init", "life", "children")
SMALL = "capacity=4M,workers=2;capacity=8M,workers=1"


@dataclasses.dataclass
class Row:
    name: str
    around: tuple = ()  # from surroundings.py
    steps: tuple = LIFE  # steps of workload.c, or the libraries that loader.c loads
    program: str = "workload"
    devices: str = SMALL         # WHERRY_DEVICES
    # A function that returns the errors of an End; None: every step must be done.
    expect: object = None
    seconds: float = 60  # the watchdog's limit


# ---- expectations: each of these functions returns a list of errors

def all_done(row, end):
    wrong = [] if end.status == 0 else [f"it ended with {end.status}"]
    return wrong + [f"'{step}' was not done" for step in row.steps
                    if row.program == "workload" and f"{step} ok" not in end.stdout.splitlines()]


def refused(*words):
    """The program gets an error, and the log gives the reason."""
    def expect(row, end):
        wrong = [] if end.status == 3 else [f"it ended with {end.status}, not with a refusal"]
        return wrong + [f"the log does not say '{word}'" for word in words
                        if not re.search(word, end.stderr)]
    return expect


def done_or_refused(*words):
    def expect(row, end):
        return refused(*words)(row, end) if end.status == 3 else all_done(row, end)
    return expect


def number(end, name):
    found = re.findall(rf"\b{name}=(\d+)", end.stdout)
    return int(found[-1]) if found else None


def number_at_most(name, most):
    """A number that the program printed."""
    def expect(row, end):
        value = number(end, name)
        small = value is not None and value <= most
        return all_done(row, end) + ([] if small else [f"{name} is {value}, more than {most}"])
    return expect


def says(*words):
    def expect(row, end):
        return all_done(row, end) + [f"the output does not say '{word}'" for word in words
                                     if not re.search(word, end.stdout)]
    return expect


def killed(signal_number):
    def expect(row, end):
        if end.status == -signal_number:
            return []
        return [f"it ended with {end.status}, not by signal {signal_number}"]
    return expect


def crashed(row, end):
    """The crash takes at most 2 s longer than without the library; the core is small, and a
    debugger can read it."""
    wrong = killed(signal.SIGSEGV)(row, end)
    with run([end.command[0], "crash"], (with_cores,), {}, 60) as plain:
        limit_seconds = plain.last_words + 2
        if end.last_words > limit_seconds:
            wrong.append(f"the crash took {end.last_words:.2f} s, "
                         f"without the library {plain.last_words:.2f} s")
    cores = list(end.folder.glob("core*"))
    if not cores:
        return wrong + ["there is no core"]
    for core in cores:
        bytes_apart = core.stat().st_size
        on_disk = core.stat().st_blocks * 512
        print(f"{core.name} has {bytes_apart / MIB:.1f} MiB, "
              f"{on_disk / MIB:.1f} MiB of them on disk")
        if bytes_apart > 512 * MIB:
            wrong.append(f"{core.name} has {bytes_apart >> 20} MiB")
    if shutil.which("gdb"):
        trace = subprocess.run(["gdb", "-batch", "-nx", "-iex", "set debuginfod enabled off", "-ex",
                                "bt", end.command[0], cores[0]],
                               capture_output=True, text=True, timeout=120)
        if not re.search(r"^#\d+ .*\bmain\b", trace.stdout, re.MULTILINE):
            wrong.append(f"gdb finds no main() in {cores[0].name}: {trace.stdout}{trace.stderr}")
    return wrong


def small_device_core(row, end):
    """A device that crashes leaves no core of terabytes either."""
    wrong = all_done(row, end)
    for core in end.folder.glob("core*"):
        if core.stat().st_size > 512 * MIB:
            wrong.append(f"{core.name} has {core.stat().st_size >> 20} MiB")
    return wrong


def no_line_of(*words):
    def expect(row, end):
        return all_done(row, end) + [f"the log says '{word}'" for word in words
                                     if word in end.stderr]
    return expect


def own_lines(row, end):
    """Every line on stderr says who printed it."""
    return all_done(row, end) + [f"a line without the library's name: {line}"
                                 for line in end.stderr.splitlines()
                                 if not line.startswith(("wherry: ", "confined: "))]


def locked(row, end):
    """Locking the program's memory does not make the library's reservations resident, and no false
    fault is reported."""
    return number_at_most("host", 400)(row, end) + no_line_of("SIGBUS", "wherry:")(row, end)


def within(bytes_):
    """The reported memory fits into the limit, and a request beyond it gets an error."""
    def expect(row, end):
        wrong = [] if end.status == 3 else [f"it ended with {end.status}, not with a refusal"]
        if "refused: cuMemAllocManaged" not in end.stdout:
            wrong.append("cuMemAllocManaged did not refuse")
        reason = rf"raise the memory limit of the cgroup \({bytes_ >> 20}M in /.*memory"
        if not re.search(reason, end.stdout) or "WHERRY_ARENA" in end.stdout:
            wrong.append("the message does not name the group's limit")
        for name in ("total", "device"):
            value = number(end, name)
            if value is None or value > bytes_:
                wrong.append(f"{name} is {value}, more than {bytes_}")
        return wrong
    return expect


ROWS = [
    Row("plain"),
    # Limits of the process.
    Row("few_descriptors", (limit(resource.RLIMIT_NOFILE, 40),),
        expect=done_or_refused("descriptor|RLIMIT_NOFILE|open files")),
    Row("file_size_below_arena", (limit(resource.RLIMIT_FSIZE, 2 * GIB),), seconds=120),
    Row("file_size_tiny", (limit(resource.RLIMIT_FSIZE, 1 * MIB),),
        expect=refused(r"RLIMIT_FSIZE \(ulimit -f\) is 1M.*64M")),
    Row("file_size_small_arena",
        (limit(resource.RLIMIT_FSIZE, 2 * GIB), environment(WHERRY_ARENA="3G")),
        expect=refused(r"RLIMIT_FSIZE \(ulimit -f\) is 2G.*WHERRY_ARENA=2G")),
    Row("address_space", (limit(resource.RLIMIT_AS, 4 * GIB),),
        expect=refused(r"RLIMIT_AS \(ulimit -v\) is 4096M.*needs \d+M more.*WHERRY_ARENA=\d+M")),
    Row("address_space_small_arena",
        (limit(resource.RLIMIT_AS, 4 * GIB), environment(WHERRY_ARENA="256M"))),
    Row("small_arena", (environment(WHERRY_ARENA="64M"),)),
    Row("data_size", (limit(resource.RLIMIT_DATA, 512 * MIB),)),
    Row("data_size_tiny", (limit(resource.RLIMIT_DATA, 24 * MIB),),
        expect=done_or_refused(r"RLIMIT_DATA \(ulimit -d\) is 24M")),
    Row("no_processes", (as_user, limit(resource.RLIMIT_NPROC, 1)),
        expect=refused(r"RLIMIT_NPROC \(ulimit -u\) is 1\b")),
    Row("unprivileged", (confined("--user"),)),
    # The memory that vm.overcommit_memory=2 charges. The setting is the machine's, so no row
    # changes it.
    Row("commit_charge", steps=("init", "life", "charged"), expect=number_at_most("charged", 300)),
    # Locked memory.
    Row("lock_future_before", steps=("lock-future", "init", "life", "children", "resident"),
        expect=locked),
    Row("lock_on_fault_before", steps=("lock-on-fault", "init", "life", "children", "resident"),
        expect=locked),
    Row("lock_after", steps=("init", "hold=4M", "lock", "life", "children", "resident"),
        expect=locked),
    Row("lock_future_after",
        steps=("init", "hold=4M", "lock-future", "life", "children", "resident"), expect=locked),
    # Core dumps.
    Row("core_dump", (with_cores,), steps=("init", "life", "hold=16M", "crash"), expect=crashed),
    Row("core_dump_of_device", (with_cores,), steps=("init", "life", "device-dump"),
        expect=small_device_core),
    Row("device_crash", (with_cores,), steps=("init", "life", "device-crash"),
        expect=small_device_core),
    Row("no_core_dump", (limit(resource.RLIMIT_CORE, 0),), steps=("init", "life", "crash"),
        expect=killed(signal.SIGSEGV)),
    # Control groups.
    Row("memory_cgroup", (in_cgroup("memory", memory__limit_in_bytes=120 * MIB),), devices="",
        steps=("init", "memory", "life=4M", "children", "hold=300M"), expect=within(120 * MIB)),
    Row("memory_cgroup_devices", (in_cgroup("memory", memory__limit_in_bytes=200 * MIB),),
        steps=("init", "memory", "life", "children", "hold=64M")),
    Row("cpuset", (in_cgroup("cpuset", cpuset__mems=0, cpuset__cpus=0),)),
    # The process's parent, id and CPUs.
    Row("pid_1", (as_pid_1,)),
    Row("subreaper", (as_subreaper,)),
    Row("one_cpu", (on_cpus(0),)),
    Row("strace", (wrapped("strace", "-f", "-o", "/dev/null"),), seconds=240),
    # Stops and changes of user.
    Row("stopped_host", steps=("init", "stopped=host", "life")),
    Row("stopped_device", steps=("init", "stopped=device", "life")),
    Row("setuid", (as_root,), ("init", "life", "setuid", "life")),
    # Debuggers. gdb's output is part of the output.
    Row("gdb", (under_gdb,), seconds=240),
    Row("gdb_attached", (may_be_debugged,), ("init", "life", "debugged=host", "life"),
        expect=says("debugger=0", r"#0 .*\n"),
        seconds=240),
    # A device that gdb has stopped does not answer. Without the setting the host would end it.
    Row("gdb_attached_to_device", (may_be_debugged, environment(WHERRY_WAIT_LIMITS="off")),
        ("init", "life", "debugged=device", "life"),
        expect=says("debugger=0", r"#0 .*\badd \("), seconds=240),
    Row("valgrind", (wrapped("valgrind", "--tool=none"),),
        expect=refused("cannot start in valgrind"), seconds=240),
    # Standard streams.
    Row("closed_stderr", (closed(2),)),
    Row("closed_stdin_and_stderr", (closed(0, 2),)),
    Row("full_stderr", (full_stderr,)),
    # Libraries that the program loads and unloads.
    Row("dlclose_libwherry", steps=("libwherry.so.0",), program="loader"),
    Row("dlclose_libcuda", steps=("compat/libcuda.so.1",), program="loader"),
    Row("dlclose_libcudart", steps=("compat/libcudart.so.13",), program="loader"),
    Row("dlclose_libwherry_io", steps=("io/libwherry_io.so.0",), program="loader"),
    Row("dlclose_all",
        steps=("compat/libcudart.so.13", "io/libwherry_io.so.0", "compat/libcuda.so.1",
               "libwherry.so.0"),
        program="loader"),
    # Sandboxes.
    Row("chroot", (in_chroot(),), expect=own_lines),
    Row("chroot_by_itself", (as_root,), steps=("chroot", "init", "life"), expect=own_lines),
    Row("chroot_of_running", (as_root,), steps=("init", "life", "chroot", "life"),
        expect=own_lines),
    Row("chroot_with_proc", (in_chroot("/proc", "/dev", "/sys"),)),
    Row("no_userfaultfd", (confined("--refuse-userfaultfd", "eperm", "--refuse-io-uring"),)),
    Row("docker", (confined("--refuse-userfaultfd", "eperm", "--refuse-io-uring",
                            "--refuse-memory-policies"),), expect=own_lines),
    Row("no_new_privileges", (wrapped("setpriv", "--no-new-privs"),)),
]


def complaints(row, end):
    wrong = (row.expect or all_done)(row, end)
    if end.status is None:
        wrong.insert(0, f"it hung: the watchdog killed it after {end.seconds:.0f} s")
    if end.left:
        wrong.append(f"processes were left: {', '.join(end.left)}")
    held = number(end, "held")
    if held and not any(step.startswith("hold") for step in row.steps):
        wrong.append(f"the pools held {held} bytes when all memory was freed")
    return wrong


def main():
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("row", nargs="?")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--programs", type=pathlib.Path)
    parser.add_argument("--libraries", type=pathlib.Path)
    parser.add_argument("--confine")
    options = parser.parse_args()
    if options.list:
        print("\n".join(row.name for row in ROWS))
        return 0
    row, = (row for row in ROWS if row.name == options.row)
    codes = [run_with(trap, row, options)
             for trap in some_of(TRAPS, f"traps of {row.name}", below_full=0.5)]
    return 1 if 1 in codes else max(codes)


def run_with(trap, row, options):
    variables = {"WHERRY_DEVICES": row.devices, "WHERRY_TRAP": trap}
    steps = row.steps
    if row.program != "workload":
        steps = [str(options.libraries.resolve() / library) for library in row.steps]
    command = [str(options.programs.resolve() / f"surroundings_{row.program}"), *steps]
    try:
        with run(command, row.around, variables, row.seconds, options.confine) as end:
            wrong = complaints(row, end)
            print(end.stdout, end.stderr, sep="")
            print(f"{row.name}, WHERRY_TRAP={trap}: "
                  f"ended with {end.status} after {end.seconds:.2f} s")
    except Skip as reason:
        print(f"SKIP: {reason}")
        return SKIPPED
    for line in wrong:
        print(f"WRONG: {line}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
