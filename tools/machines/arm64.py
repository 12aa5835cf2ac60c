"""arm64: the programs of kernels.py, compiled in a root folder with Debian 13 and its cross
compiler, in an emulated machine with Debian 13's kernel. In full also: Debian 12's kernel, whose
userfaultfd cannot protect pages on arm64.

The cache holds the root folder (1 GB), which is made anew when what is installed in it changes, and
after two weeks; and what its compiler has made (ccache). Commands run in the root folder by chroot,
without mounts: a compiler needs none.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import time

from machines import debian_packages, emulated, kernels, mirror
from machines.attempt import Unavailable

NAMES = ("arm64",)

RELEASE = "trixie"
ROOT_DAYS = 14
INSTALLED = [
    "ca-certificates", "ccache", "crossbuild-essential-arm64", "meson", "ninja-build", "pkgconf",
    "python3", "libcli11-dev", "nlohmann-json3-dev",
    *(f"{name}:arm64" for name in (
        "busybox-static", "libboost-context-dev", "libcatch2-dev", "libfmt-dev", "libgomp1",
        "libncurses-dev", "libnuma-dev", "liburing-dev", "zlib1g-dev"))]

# Linux, and the trap that the library chooses there: (suite, how the version begins, trap).
NEW_KERNEL = ("trixie", "6.12.", "userfaultfd")
OLD_KERNEL = ("bookworm", "6.1.", "mprotect")

# Besides the tests of kernels.py: tests of registers and instructions, and of what processes share.
# Each with a pattern of the cases that the short form runs; if empty, all.
MORE_TESTS = [
    ("os/access_faults_test", ""),
    ("os/process_test", ""),
    ("trap/fault_board_test", "a slot that is filled again*"),  # the other case takes minutes
    ("memory/capacity_test", ""),
    ("memory/offer_board_test", ""),
    ("devices/launch_board_test", ""),
]
# Not in the short form: the programs of these folders take minutes to compile.
LARGE_FOLDERS = ("held", "system")

SOURCE, BUILD = "src", "b"  # folders in the root folder
CROSS_FILE = """
[binaries]
c = ['ccache', 'aarch64-linux-gnu-gcc']
cpp = ['ccache', 'aarch64-linux-gnu-g++']
ar = 'aarch64-linux-gnu-gcc-ar'
strip = 'aarch64-linux-gnu-strip'
pkg-config = 'pkg-config'

[properties]
pkg_config_libdir = ['/usr/lib/aarch64-linux-gnu/pkgconfig', '/usr/share/pkgconfig']

[host_machine]
system = 'linux'
cpu_family = 'aarch64'
cpu = 'aarch64'
endian = 'little'
"""

# Programs of this machine: (name, package).
NEEDED = [("mmdebstrap", "mmdebstrap"), ("qemu-system-aarch64", "qemu-system-arm"),
          ("aarch64-linux-gnu-strip", "binutils-aarch64-linux-gnu"), ("cpio", "cpio"),
          ("readelf", "binutils"), ("git", "git")]

INSTALL_LIMIT_S = 3600
BUILD_LIMIT_S = 2 * 3600
# Limits of one program, and of all: programs take several times as long as in an emulated PC.
PROGRAM_LIMIT_S = {True: 180, False: 1200}
MACHINE_LIMIT_S = {True: 1200, False: 4 * 3600}
# All instructions of arm64 that QEMU knows; pointer authentication as QEMU computes it fastest.
MACHINE = ["-M", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on",
           "-m", "2G", "-smp", "4"]


def to_second_line(path):
    # Debian 12's kernel has no driver of virtio consoles built in.
    return ["-chardev", f"file,id=output,path={path}", "-device", "pci-serial,chardev=output"]


class Root:
    """A root folder with the cross compiler."""

    def __init__(self, attempt):
        self.attempt = attempt
        self.cache = attempt.cache / attempt.name
        self.folder = self.cache / "root"
        self.log = self.cache / "log"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.log.write_text("")

    def run(self, command, limit_s):
        """Runs the shell command in the folder. Returns whether it succeeded."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive", "CCACHE_DIR": "/ccache",
                       "CCACHE_MAXSIZE": "2G"}
        with open(self.log, "a") as log:
            print(f"$ {command}", file=log, flush=True)
            try:
                return subprocess.run(
                    ["setpriv", "--pdeathsig=KILL", "chroot", self.folder, "sh", "-c", command],
                    env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                    timeout=limit_s).returncode == 0
            except subprocess.TimeoutExpired:
                print(f"not done after {limit_s} s", file=log, flush=True)
                return False

    def last_lines(self):
        return "\n  | ".join([str(self.log), *self.log.read_text().splitlines()[-12:]])

    def install(self):
        """Installs the system, unless it is there with these packages and new enough."""
        ready = self.cache / "ready"
        kind = hashlib.sha256("\n".join(INSTALLED).encode()).hexdigest()
        if ready.exists() and ready.read_text() == kind and (
                time.time() - ready.stat().st_mtime < ROOT_DAYS * 86400):
            return
        ready.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        made = subprocess.run(
            ["mmdebstrap", "--variant=apt", "--architectures=amd64,arm64",
             f"--include={','.join(INSTALLED)}", *mirror.settings(),
             RELEASE, self.folder, f"deb {mirror.debian()} {RELEASE} main"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
        if made.returncode != 0:
            errors = [line for line in made.stderr.splitlines() if line.startswith("E: ")]
            raise Unavailable(f"mmdebstrap cannot make {RELEASE} from {mirror.debian()}: "
                              + (errors or made.stderr.splitlines() or ["no reason given"])[0])
        ready.write_text(kind)

    def configure(self):
        """Makes a clean clone of HEAD and a build folder. Returns whether it succeeded."""
        self.attempt.clone(self.folder / SOURCE)
        (self.folder / "cross.ini").write_text(CROSS_FILE)
        return self.run(
            f"rm -rf /{BUILD} && cd /{SOURCE} && meson setup /{BUILD} --cross-file /cross.ini "
            "-Ddebug=false -Dbench=false", 600)

    def machine(self, kernel):
        suite, version, _ = kernel
        return emulated.Machine(
            qemu="qemu-system-aarch64", options=MACHINE,
            kernel=debian_packages.kernel_image(self.cache, suite, "arm64", version),
            busybox=self.folder / "usr/bin/busybox", root=self.folder,
            strip="aarch64-linux-gnu-strip", console="ttyAMA0", output="ttyS0",
            output_options=to_second_line)


class Build(kernels.Build):
    """The build folder in the root folder. Its meson-info files are read, because this machine's
    Meson may be older than the one that made the folder. Arguments and environment of programs
    have paths of the emulated machine, which are those below the root folder."""

    def __init__(self, root):
        self.root = root
        self.folder = root.folder / BUILD
        self.made_by = {target["id"]: [self.outside(path) for path in target["filename"]]
                        for target in self.noted("targets")}
        self.tests = {}
        for test in self.noted("tests"):
            suite = test["suite"][0].partition(":")[2]
            test["cmd"][0] = self.outside(test["cmd"][0])
            self.tests[f"{suite}/{test['name']}"] = test

    def noted(self, what):
        return json.loads((self.folder / f"meson-info/intro-{what}.json").read_text())

    def outside(self, path):
        return str(self.root.folder / path.lstrip("/"))

    def files_of(self, name):
        test = self.tests[name]
        return [self.outside(value) for value in test["env"].values()
                if value.startswith(f"/{BUILD}/") and ":" not in value
                and not os.path.isdir(self.outside(value))] + [
                    file for target in test["depends"] for file in self.made_by[target]]


def run_of_checksum(build):
    """The test of a program that knows nothing of Wherry, under `wherry run`."""
    program = build.program("tests/guest_checksum")
    return kernels.Program(
        "wherry run -- checksum",
        emulated.Command([build.program("tools/wherry"), "run", "--",
                          f"/{BUILD}/tests/guest_checksum"]),
        kernels.expect("managed memory in 1 allocation(?s:.*)the sum is 8796090925056"
                       "|the sum is 8796090925056(?s:.*)managed memory in 1 allocation",
                       "the right sum, and that its memory was managed"), [program])


def programs(build, kernel, quick):
    wherry = build.program("tools/wherry")
    isolated, coherent = "kind=isolated,capacity=64M", "kind=coherent,capacity=64M"
    trap = kernel[2]
    listed = [
        kernels.Program("wherry info", emulated.Command([wherry, "info"]),
                        kernels.expect(rf"runs +{trap}\b", f"that the trap is {trap}")),
        kernels.cg(build, "isolated", isolated, quick),
        kernels.cg(build, "coherent", coherent, quick),
    ]
    if kernel == OLD_KERNEL:
        return listed
    by_protection = {"WHERRY_TRAP": "mprotect"}
    listed += [kernels.cg(build, "isolated, mprotect", isolated, quick, by_protection),
               run_of_checksum(build)]
    if quick:
        chosen, again = kernels.QUICK_TESTS + MORE_TESTS, kernels.QUICK_BY_PROTECTION
    else:
        folders = [name for name in build.tests if build.runs_alone(name)
                   and name.split("/")[0] in (*kernels.FULL_FOLDERS, "kernels", "pages", "trace")]
        more = [name for name, _ in MORE_TESTS]
        chosen = [(name, "") for name in kernels.FULL_TESTS + folders + more + kernels.LITMUS]
        again = [(name, "") for name in kernels.FULL_BY_PROTECTION]

    def of(tests, environment, suffix=""):
        return [build.test(name, cases, quick, environment, suffix)
                for name, cases in dict(tests).items()
                if not quick or not name.startswith(LARGE_FOLDERS)]

    return listed + of(chosen, {}) + of(again, by_protection, ", mprotect")


def attempt(attempt):
    if os.geteuid() != 0:
        raise Unavailable("the root folder with the cross compiler needs root")
    for program, package in NEEDED:
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} (package {package}): tools/setup elsewhere")
    root = Root(attempt)
    root.install()
    if not root.configure():
        attempt.fail("configuring", root.last_lines())
        return
    build = Build(root)
    for kernel in [NEW_KERNEL] if attempt.quick else [NEW_KERNEL, OLD_KERNEL]:
        machine = root.machine(kernel)
        listed = programs(build, kernel, attempt.quick)
        for one in listed:
            one.command.limit = PROGRAM_LIMIT_S[attempt.quick]
        files = kernels.folders_of_run(build) + [file for one in listed for file in one.files]
        targets = build.targets([one.command.words[0] for one in listed] + files)
        if not root.run(f"ninja -C /{BUILD} {' '.join(targets)}", BUILD_LIMIT_S):
            attempt.fail("compiling", root.last_lines())
            return
        outcome = emulated.run(machine, [one.command for one in listed], files, {},
                               MACHINE_LIMIT_S[attempt.quick], root.cache)
        if outcome.began:
            kernels.report(attempt, listed, outcome)
        else:
            attempt.fail("start", "the machine did not start")
