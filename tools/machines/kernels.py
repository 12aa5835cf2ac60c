"""Boots other versions of Linux, Debian's, in an emulated machine, and runs programs of a build
there."""

import dataclasses
import json
import os
import pathlib
import hashlib
import re
import shutil
import subprocess
from collections.abc import Callable

from machines import debian_packages, emulated
from machines.attempt import CHECKOUT, Unavailable


@dataclasses.dataclass
class Kernel:
    suite: str  # of Debian; its newest kernel for virtual machines is taken
    trap: str  # what the library chooses there
    version: str = ""  # how the kernel's version begins


KERNELS = {
    "kernel-5.10": Kernel("bullseye", "mprotect", "5.10."),
    "kernel-6.1": Kernel("bookworm", "userfaultfd", "6.1."),
    "kernel-6.12": Kernel("bookworm-backports", "userfaultfd", "6.12."),
    "kernel-newest": Kernel("sid", "userfaultfd"),
}
NAMES = tuple(KERNELS)

SKIPPED = 77
SORT = "/usr/bin/sort"
# Limits of one program, and of all, in seconds. True: the short form. The CPUs are emulated, and
# other programs may use this machine's CPUs meanwhile.
PROGRAM_LIMIT = {True: 120, False: 1800}
MACHINE_LIMIT = {True: 900, False: 4 * 3600}
# Seconds in which a machine with KVM starts and ends.
KVM_LIMIT = 20

# WHERRY_TEST_SCALE: of the litmus tests and of held_test in the long form, and of all others.
LONG_SCALE = "0.05"
SCALE = {True: "0.001", False: "0.01"}

# The short form: a test, or some cases of one.
QUICK_TESTS = [
    ("stress/litmus", "migrating pages between host and device*"),
    ("stress/coherent_litmus", "moving pages to the coherent devices*"),
    ("stress/kills_test", ""),
    ("trap/userfaultfd_mapper_test", ""),
    ("trap/protection_mapper_test", ""),
    ("os/touch_test", ""),
    ("held/free_pages_test", ""),
    ("system/read_mostly_test", ""),
    ("system/prefetch_residency_test", "a whole block is one huge page*"),
    ("system/oversubscription_test", "a block that was evicted*"),
]
# Where the library chooses userfaultfd, these run once more with the mprotect trap.
QUICK_BY_PROTECTION = [
    ("stress/litmus", "migrating pages between host and device*"),
    ("held/free_pages_test", ""),
]
# The long form: tests of these folders and some others, without those that start Python, a
# compiler or gdb.
FULL_FOLDERS = ["os", "trap"]
FULL_TESTS = [
    "stress/kills_test", "stress/stress_test", "stress/advice_concurrency_test",
    "held/free_pages_test", "held/beside_test", "held/held_test",
    "memory/adopted_ranges_test", "memory/copy_backend_test", "memory/pool_test",
    "migration/page_engine_test", "migration/prefetcher_test", "migration/consolidator_test",
    "devices/device_process_test", "devices/device_failure_test", "devices/device_hygiene_test",
    "trap/attached_threads_test", "io/direct_read_test", "io/pinned_io_test",
    "system/residency_test", "system/read_mostly_test", "system/preferred_location_test",
    "system/accessed_by_test", "system/copy_test", "system/prefetch_residency_test",
    "system/prefetch_test", "system/capacity_test", "system/coherent_test",
    "system/usage_sampling_test", "system/huge_fault_test", "system/ipc_test",
    "system/memory_pool_test", "system/virtual_memory_test", "system/host_memory_test",
    "system/pin_test", "system/oversubscription_test", "system/free_test",
    "system/syscalls_test", "system/fork_hygiene_test", "system/device_failure_test",
    "system/exit_test", "system/signals_test", "system/threads_test",
    "system/fault_handler_test",
]
LITMUS = ["stress/litmus", "stress/coherent_litmus"]  # last, because they take longest
FULL_BY_PROTECTION = [
    "held/free_pages_test", "system/read_mostly_test", "system/prefetch_residency_test",
    "system/oversubscription_test", "system/coherent_test", "system/free_test", *LITMUS,
]


@dataclasses.dataclass
class Program:
    """One counted test."""

    name: str
    command: emulated.Command
    check: Callable = lambda output: None  # returns what is wrong with the output, or None
    files: list = dataclasses.field(default_factory=list)  # what it starts, loads or reads


class Build:
    """A build folder, and its tests as Meson knows them."""

    def __init__(self, folder):
        self.folder = folder
        listing = subprocess.run(["meson", "introspect", "--tests", folder], check=True,
                                 capture_output=True, text=True).stdout
        targets = subprocess.run(["meson", "introspect", "--targets", folder], check=True,
                                 capture_output=True, text=True).stdout
        self.made_by = {target["id"]: target["filename"] for target in json.loads(targets)}
        self.tests = {}
        for test in json.loads(listing):
            suite = test["suite"][0].partition(":")[2]
            self.tests[f"{suite}/{test['name']}"] = test

    def program(self, path):
        return self.folder / path

    def runs_alone(self, name):
        """Whether the test is a program of the build, not a script that starts some."""
        return self.tests[name]["cmd"][0].startswith(str(self.folder / "tests"))

    def test(self, name, cases, quick, environment, suffix=""):
        """`cases`: a pattern of names of test cases; if empty, all."""
        test = self.tests[name]
        *words, last = test["cmd"]
        words.append(last + cases)  # Catch2's way to say `and`
        scale = LONG_SCALE if name in [*LITMUS, "held/held_test"] and not quick else SCALE[quick]
        settings = test["env"] | {"WHERRY_TEST_SCALE": scale} | environment
        return Program(name + suffix, emulated.Command(words, settings, PROGRAM_LIMIT[quick]),
                       files=self.files_of(name))

    def files_of(self, name):
        """The files that the test starts or loads."""
        test = self.tests[name]
        return [value for value in test["env"].values() if value.startswith(f"{self.folder}/")
                and ":" not in value and not os.path.isdir(value)] + [
                    file for target in test["depends"] for file in self.made_by[target]]

    def targets(self, paths):
        """The targets that make these files. A file may be a link to one, or exist already."""
        made = [file for files in self.made_by.values() for file in files]
        return sorted({os.path.relpath(file, self.folder) for path in map(str, paths)
                       for file in made if file == path or file.startswith(f"{path}.")})

    def make(self, paths):
        subprocess.run(["ninja", "-C", self.folder, *self.targets(paths)], check=True,
                       stdout=subprocess.DEVNULL)


def folders_of_run(build):
    """What `wherry run` reads and loads."""
    return [build.program(path) for path in (
        "tools/wherry-folders", "lib/run/libwherry_run.so.0", "lib/libwherry.so.0",
        "lib/interposers/libwherry_interposers.so.0", "lib/io/libwherry_io.so.0")]


def expect(pattern, what):
    return lambda output: None if re.search(pattern, output) else f"it does not say {what}"


def cg(build, name, devices, quick, environment=None):
    return Program(
        f"wherry cg, {name}",
        emulated.Command([build.program("tools/wherry"), "cg", "--poisson", "8"],
                         {"WHERRY_DEVICES": devices} | (environment or {}), PROGRAM_LIMIT[quick]),
        expect("the same solution, bit for bit", "that the solution is right"))


def write_lines(folder):
    """Writes a file that `sort` reads into memory that is large enough to become managed."""
    path = folder / "lines"
    path.write_text("".join(f"{number * 7919 % 100003} {number}\n" for number in range(100_000)))
    return path


def sort(wherry, lines, limit):
    """The test of `sort`, which knows nothing of Wherry, under `wherry run`."""
    right = hashlib.sha256("".join(sorted(lines.open())).encode()).hexdigest()
    script = '"$0" run -- "$1" -S 64M "$2" | sha256sum'
    return Program(
        "wherry run -- sort",
        emulated.Command([shutil.which("busybox"), "sh", "-c", script, wherry, SORT, lines],
                         limit=limit),
        expect(right, "that the lines were sorted"), [wherry, SORT, lines])


def programs(build, kernel, quick, folder):
    """The programs that run in the machine, with their files."""
    lines = write_lines(folder)
    wherry = build.program("tools/wherry")
    limit = PROGRAM_LIMIT[quick]
    by_protection = {"WHERRY_TRAP": "mprotect"}
    # Tests expect userfaultfd, unless WHERRY_TRAP says otherwise.
    plain = by_protection if kernel.trap == "mprotect" else {}
    isolated, coherent = "kind=isolated,capacity=64M", "kind=coherent,capacity=64M"

    listed = [
        Program("wherry info", emulated.Command([wherry, "info"], limit=limit),
                expect(rf"runs +{kernel.trap}\b", f"that the trap is {kernel.trap}")),
        Program("wherry info, as nobody",
                emulated.Command([wherry, "info"], limit=limit, user="nobody"),
                expect(r"runs +(userfaultfd|mprotect)\b", "which trap it chooses")),
        cg(build, "isolated", isolated, quick),
        cg(build, "coherent", coherent, quick),
        sort(wherry, lines, limit),
    ]
    if not plain:
        listed.append(cg(build, "isolated, mprotect", isolated, quick, by_protection))
    if quick:
        chosen, again = QUICK_TESTS, QUICK_BY_PROTECTION
    else:
        folders = [name for name in build.tests
                   if name.split("/")[0] in FULL_FOLDERS and build.runs_alone(name)]
        chosen = [(name, "") for name in FULL_TESTS + folders + LITMUS]
        again = [(name, "") for name in FULL_BY_PROTECTION]
    listed += [build.test(*test, quick, plain) for test in chosen]
    if not plain:
        listed += [build.test(*test, quick, by_protection, ", mprotect") for test in again]
    return listed


def own_build(attempt):
    """Builds a clean clone of HEAD, which all kernels share and later calls update."""
    folder = attempt.cache / "kernels/source"
    trusting = ["git", "-c", f"safe.directory={CHECKOUT}"]
    if not (folder / ".git").is_dir():
        attempt.clone(folder)
    else:
        subprocess.run([*trusting, "-C", folder, "fetch", "--quiet", CHECKOUT, "HEAD"], check=True)
        subprocess.run([*trusting, "-C", folder, "checkout", "--quiet", "--force", "--detach",
                        "FETCH_HEAD"], check=True)
    subprocess.run([folder / "tools/configure", folder / "build", "-Dbench=false"], check=True)
    # Configures again if the list of sources has changed, because the tests are read from it.
    subprocess.run(["ninja", "-C", folder / "build", "build.ninja"], check=True,
                   stdout=subprocess.DEVNULL)
    return Build(folder / "build")


def tool(name, package):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    found = shutil.which(name, path=path)
    if not found:
        raise Unavailable(f"no {name} (package {package})")
    return found


def fastest_machine(folder, qemu, image, busybox):
    """A machine with KVM if Linux starts in it, which some virtual machines prevent."""
    size = ["-m", "2G", "-smp", "2"]
    emulation = emulated.Machine(qemu, [*emulated.EMULATED_PC, *size], image, busybox)
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return emulation
    kvm = emulated.Machine(qemu, ["-accel", "kvm", "-cpu", "host", *size], image, busybox)
    found = folder / "kvm"
    this_start = pathlib.Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if not found.exists() or this_start not in found.read_text():
        tried = emulated.run(kvm, [emulated.Command([busybox, "true"])], [], {}, KVM_LIMIT, folder,
                             starts=1, start_limit=KVM_LIMIT)
        works = tried.began and len(tried.ended) == 1
        found.write_text(f"{'works' if works else 'fails'} {this_start}\n")
    return kvm if found.read_text().startswith("works") else emulation


def report(attempt, listed, outcome):
    for program, ended in zip(listed, outcome.ended):
        what = f"{program.name} ({ended.seconds:.0f} s)"
        words = ended.output.strip().splitlines()
        if ended.code == SKIPPED:
            reasons = [line for line in words if "SKIP" in line]
            attempt.skip(what, (reasons or words or ["it does not say why"])[-1])
        elif ended.code != 0:
            print(ended.output)
            attempt.fail(what, f"exit code {ended.code}")
        elif wrong := program.check(ended.output):
            print(ended.output)
            attempt.fail(what, wrong)
        else:
            attempt.succeed(what)
    unfinished = listed[len(outcome.ended):]
    if unfinished:
        print(outcome.rest)
        print(outcome.last_words(40))
        attempt.fail(unfinished[0].name, "the machine stopped before it had ended"
                     if outcome.in_time else "the limit of all programs passed")
        for program in unfinished[1:]:
            attempt.fail(program.name, "it did not begin")
    elif outcome.complaint():
        print(outcome.console)
        attempt.fail("Linux's messages", outcome.complaint())


def attempt(attempt):
    kernel = KERNELS[attempt.name]
    qemu = tool("qemu-system-x86_64", "qemu-system-x86")
    busybox = tool("busybox", "busybox-static")
    for name, package in (("cpio", "cpio"), ("readelf", "binutils"), ("strip", "binutils")):
        tool(name, package)
    image = debian_packages.kernel_image(attempt.cache / "kernels", kernel.suite, "amd64",
                                         kernel.version)
    build = Build(attempt.build) if attempt.build else own_build(attempt)
    listed = programs(build, kernel, attempt.quick, attempt.cache / "kernels")
    files = folders_of_run(build) + [file for program in listed for file in program.files]
    if not attempt.build:
        build.make([program.command.words[0] for program in listed] + files)
    machine = fastest_machine(attempt.cache / "kernels", qemu, image, busybox)
    outcome = emulated.run(machine, [program.command for program in listed], files, {},
                           MACHINE_LIMIT[attempt.quick], attempt.cache / "kernels")
    if not outcome.began:
        attempt.fail("start", "the machine did not start")
        return
    report(attempt, listed, outcome)
