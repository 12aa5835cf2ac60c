#!/usr/bin/python3
"""Makes the library's system calls fail, one by one or at random, while a program uses it
(workload.cc, injector.cc).

Usage: injection_test.py WORKLOAD INJECTOR [--exhaustive] [--seconds N] [--seed N]
       [--only FUNCTION[:OFFSET]] [--keep FILE]

Without --exhaustive: runs with single faults that the seed chooses, for N seconds (20).
With it: every fault at every call site that the program executes: at the first execution, at one in
the middle, and from the first on. --seconds limits the time (0: no limit). Every second run is
followed by one with several random faults that the seed chooses.

Checks after each run: the program ended within the limit; it found no wrong data; it ended by
itself, or by a signal after a line of the library with the reason; a refused cuInit left no
descriptor, mapping or thread (the program checks that); no process is left.
"""

import argparse
import collections
import errno
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 60
SLOW_S = 15
GRACE_S = 10
DEVICES = "capacity=8M,workers=1;capacity=8M,workers=1"
WRONG_DATA = 10
LEFT_BEHIND = 11
# Errors that are temporary: the next call may succeed.
TRANSIENT = {errno.EINTR, errno.EEXIST, errno.EBUSY}
# Errors of these calls are temporary also if they stand for a lack of something other than memory.
TRANSIENT_CALLS = {"ioctl", "read", "write", "poll", "ppoll", "sendmsg", "recvmsg",
                   "io_uring_submit", "__io_uring_get_cqe", "syscall"}
BURST = 50
FOREVER = 1 << 40
# A device answers each command through these calls; the effect of a failure depends on the command.
EVERY_PASSING = {("poll", str(errno.ENOMEM)), ("recvmsg", str(errno.ENOMEM))}
PASSINGS_MAX = 96
# Errors that only a bug of the library can cause. The library may end with its one line.
OURS = {errno.EBADF, errno.EFAULT, errno.EINVAL}

Site = collections.namedtuple("Site", "function offset request")


def fault_name(fault):
    return errno.errorcode.get(int(fault), fault) if fault.lstrip("-").isdigit() else fault


class Runner:
    def __init__(self, arguments):
        self.arguments = arguments
        self.folder = tempfile.mkdtemp(prefix="injection-")
        self.program = os.path.join(self.folder, "workload")
        # A copy, so that its processes are not confused with those of another run of this test.
        shutil.copy2(arguments.workload, self.program)
        library = os.path.join(os.path.dirname(os.path.realpath(arguments.workload)), "..", "lib")
        folders = [library, os.environ.get("LD_LIBRARY_PATH", "")]
        self.environment = dict(os.environ, LD_PRELOAD=os.path.realpath(arguments.injector),
                                LD_LIBRARY_PATH=":".join(folder for folder in folders if folder),
                                WHERRY_DEVICES=DEVICES)
        self.notes = os.path.join(self.folder, "notes")
        self.errors = os.path.join(self.folder, "errors")
        self.runs = 0
        self.failures = []
        self.covered = set()
        self.slowest = 0.0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self):
        found = []
        for entry in os.listdir("/proc"):
            if not entry.isdigit():
                continue
            try:
                if os.readlink(f"/proc/{entry}/exe").startswith(self.program):
                    found.append(int(entry))
            except OSError:
                continue
        return found

    def stacks(self):
        text = ""
        for pid in self.processes():
            text += f"-- process {pid}\n"
            try:
                text += subprocess.run(["gdb", "-batch", "-p", str(pid), "-ex",
                                        "thread apply all backtrace 16"], timeout=60,
                                       stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL,
                                       text=True, errors="replace").stdout
            except (OSError, subprocess.TimeoutExpired) as why:
                text += f"no stacks: {why}\n"
        return text

    def end_all(self):
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass

    def lines(self):
        try:
            with open(self.notes, encoding="ascii", errors="replace") as notes:
                return [line.split() for line in notes]
        except FileNotFoundError:
            return []

    def run(self, plan):
        """Runs the program once. Returns a description of the error, or an empty string."""
        for path in (self.notes, self.errors):
            if os.path.exists(path):
                os.unlink(path)
        environment = dict(self.environment, INJECT_PLAN=plan, INJECT_FILE=self.notes)
        self.runs += 1
        begun = time.monotonic()
        wrong = ""
        with open(self.errors, "wb") as errors:
            process = subprocess.Popen([self.program], stdin=subprocess.DEVNULL, stdout=errors,
                                       stderr=errors, cwd=self.folder,
                                       env=environment)
            try:
                process.wait(timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                wrong = f"hangs (more than {LIMIT_S} s)\n{self.stacks()}"
                self.end_all()
                process.wait()
        took = time.monotonic() - begun
        if took > SLOW_S:
            print(f"injection: slow: {plan}: {took:.1f} s", flush=True)
        self.slowest = max(self.slowest, took)
        with open(self.errors, encoding="utf-8", errors="replace") as errors:
            said = errors.read()
        if not wrong:
            wrong = self.judge(process.returncode, said, plan,
                               {words[1] for words in self.lines() if words[:1] == ["hit"]})
        if not wrong:
            deadline = time.monotonic() + GRACE_S
            while self.processes() and time.monotonic() < deadline:
                time.sleep(0.01)
            left = self.processes()
            if left:
                wrong = f"processes are left: {left}\n{self.stacks()}"
                self.end_all()
        for words in self.lines():
            if len(words) == 5 and words[0] == "hit":
                self.covered.add((Site(*words[1:4]), words[4]))
        if wrong:
            self.failures.append(plan)
            print(f"injection: FAILED: {plan}: {wrong}\n{said[-3000:]}", flush=True)
        return wrong

    @staticmethod
    def judge(code, said, plan, hits):
        if code == 0:
            return "" if "workload: end:" in said else "ended early with exit code 0"
        if code == WRONG_DATA:
            return "wrong data"
        if code == LEFT_BEHIND:
            # Memory that munmap() does not remove stays.
            if "munmap" in hits and ("KiB mapped" in said or "mappings after" in said):
                return ""
            return "a refused cuInit left something behind"
        reasons = [line for line in said.splitlines() if line.startswith("wherry: ")]
        if code in (-signal.SIGBUS, -signal.SIGSEGV) and reasons:
            return ""
        if code == -signal.SIGABRT:
            words = plan.split()
            ours = words[0] == "fail" and words[3].isdigit() and int(words[3]) in OURS
            # If Linux always refuses to remove access to a page, the page cannot be moved, and the
            # program cannot continue.
            stuck = "mprotect" in hits and any("cannot be taken from processor 0" in line
                                               for line in reasons)
            return "" if (ours or stuck) and reasons else "aborted"
        return f"ended with {code}"

    def record(self):
        if self.run("record"):
            sys.exit("injection: the program does not work without faults")
        sites = {}
        for words in self.lines():
            if len(words) != 6 or words[0] != "site":
                continue
            site = Site(*words[1:4])
            count, faults = sites.get(site, (0, ()))
            sites[site] = (max(count, int(words[4])), tuple(words[5].split(",")))
        return sites


def positions(site, fault, count):
    """The first and last execution that fail, for each run."""
    if (site.function, fault) in EVERY_PASSING:
        yield from ((passing, passing) for passing in range(1, min(count * 2, PASSINGS_MAX) + 1))
    yield 1, 1
    if fault not in ("delay", "short") and int(fault) not in TRANSIENT:
        yield 1, BURST if site.function in TRANSIENT_CALLS else FOREVER
    if count > 1:
        middle = max(2, count * 3 // 4)
        yield middle, middle


def plans_of(sites, only, chance):
    """All plans in random order, but every pair of site and fault once before any is repeated."""
    rounds = collections.defaultdict(list)
    for site, (count, faults) in sorted(sites.items()):
        if only and only not in (site.function, f"{site.function}:{site.offset}"):
            continue
        for fault in faults:
            for turn, (first, last) in enumerate(positions(site, fault, count)):
                rounds[turn].append((site, fault,
                                     f"fail {site.offset} {site.request} {fault} {first} {last}"))
    for turn in sorted(rounds):
        chance.shuffle(rounds[turn])
        yield from rounds[turn]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("workload")
    parser.add_argument("injector")
    parser.add_argument("--exhaustive", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int,
                        default=int(os.environ.get("WHERRY_TEST_SEED", "0"))
                        or int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--only", help="a function, or FUNCTION:OFFSET")
    parser.add_argument("--plan", help="one run, as INJECT_PLAN has it")
    arguments = parser.parse_args()
    runner = Runner(arguments)
    chance = random.Random(arguments.seed)
    print(f"injection: seed {arguments.seed}", flush=True)
    seconds = arguments.seconds
    if seconds is None:
        seconds = 0 if arguments.exhaustive else 20
    deadline = time.monotonic() + seconds if seconds else float("inf")
    try:
        if arguments.plan:
            runner.run(arguments.plan)
            with open(runner.errors, encoding="utf-8", errors="replace") as errors:
                print(errors.read(), end="")
            print("\n".join(" ".join(words) for words in runner.lines()[-20:]))
            return 1 if runner.failures else 0
        sites = runner.record()
        plans = list(plans_of(sites, arguments.only, chance))
        turn = 0
        for _, _, plan in plans:
            if time.monotonic() > deadline:
                break
            runner.run(plan)
            turn += 1
            if turn % 2 == 0:
                runner.run(f"random {chance.randrange(1 << 31)} {chance.choice((50, 300, 1500))}")
        pairs = {(site, fault) for site, fault, _ in plans}
        print(f"injection: slowest run {runner.slowest:.1f} s; not reached: "
              f"{len(pairs - runner.covered)}", flush=True)
        for plan in runner.failures:
            print(f"injection: failed: {plan}")
        print(f"injection: sites {len(sites)}, "
              f"pairs covered {len(pairs & runner.covered)} of {len(pairs)}, "
              f"runs {runner.runs}, failures {len(runner.failures)}")
        return 1 if runner.failures else 0
    finally:
        runner.close()


if __name__ == "__main__":
    sys.exit(main())
