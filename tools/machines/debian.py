"""Other releases of Debian. Each is a root folder that mmdebstrap makes. Commands run in it with
mounts and process numbers of their own, which end with the command, however it ends.

The cache holds for each release: a bare system (made anew after two weeks), the packages that its
apt has downloaded, what its compilers have made (ccache), and for --quick a system with all
packages.

In full: in a bare system, README's two commands in README's order, and the tool and a program that
is linked with the library as an ordinary user; on Debian 13 also the packages of tools/package, on
a clean system. With --quick Debian 13 builds all and runs the tests of the suites that QUICK
leaves, about half of them, in a minute; sid only compiles everything, with clang; Debian 12 does
nothing.
"""

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import time

from machines import mirror
from machines.attempt import CHECKOUT, Unavailable

RELEASES = {"debian12": "bookworm", "debian13": "trixie", "sid": "sid"}
NAMES = tuple(RELEASES)

BARE_DAYS = 14
# Packages besides those that README's commands install. This file needs `mount`.
INCLUDED = "ca-certificates,ccache,mount"
CLONE = "/wherry"  # in the root folder
LIMIT_S = {"demo": 3600, "test": 3 * 3600, "build": 2 * 3600, "packages": 3600, "program": 300}

# What the short form leaves out: suites that take long, that compile much, or that need a second
# machine. They run on the machine that runs tools/test.
QUICK = ["browser", "fuzz", "guest", "held", "injection", "mpi", "package", "run", "sigbus",
         "stress", "surroundings", "tree"]

# Runs in new namespaces of mounts and processes; the last arguments are the command. A chroot does
# not suffice: in one, Linux forbids new user namespaces, in which the library makes huge pages.
ENTER = """
set -e
root=$1 archives=$2 ccache=$3
shift 3
mount --bind "$root" "$root"
mkdir -p "$root/var/cache/ccache"
mount --bind "$archives" "$root/var/cache/apt/archives"
mount --bind "$ccache" "$root/var/cache/ccache"
mount -t proc proc "$root/proc"
mount --rbind /sys "$root/sys"
mount --rbind /dev "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
cd "$root"
pivot_root . mnt
umount -l /mnt
cd "$0"
exec "$@"
"""

# (what, command): each succeeds as `nobody`, in the clone.
AS_NOBODY = [
    ("wherry info", "build/tools/wherry info"),
    ("wherry cg", "WHERRY_DEVICES='capacity=64M;capacity=64M' "
                  "build/tools/wherry cg --poisson 128 --devices 2"),
    ("a program that is linked with the library",
     "PKG_CONFIG_PATH=build/meson-uninstalled LD_LIBRARY_PATH=build/lib sh -c '"
     "g++ -std=c++20 -O2 docs/examples/first.cc -o /tmp/first $(pkg-config --cflags --libs wherry)"
     " && /tmp/first'"),
]


class Root:
    """A root folder. name: tells several of the same release apart."""

    def __init__(self, attempt, name):
        self.attempt, self.release = attempt, RELEASES[attempt.name]
        self.cache = attempt.cache / attempt.name
        self.folder = self.cache / name
        self.log = self.cache / f"{name}.log"
        for made in ("archives", "ccache"):
            (self.cache / made).mkdir(parents=True, exist_ok=True)

    def run(self, command, limit_s, **variables):
        """Runs the shell command in the clone, as root. Returns the exit code and what it wrote,
        which the log gets, too."""
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                       "HOME": "/root", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive",
                       "CCACHE_DIR": "/var/cache/ccache", "CCACHE_MAXSIZE": "2G",
                       "CCACHE_SLOPPINESS": "pch_defines,time_macros"} | variables
        words = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--propagation=private",
                 "--pid", "--fork", "--kill-child=KILL", "sh", "-c", ENTER, CLONE, self.folder,
                 self.cache / "archives", self.cache / "ccache", "sh", "-c", command]
        with open(self.log, "a+") as log:
            print(f"$ {command}", file=log, flush=True)
            begin = log.seek(0, os.SEEK_END)
            try:
                code = subprocess.run(words, env=environment, stdin=subprocess.DEVNULL, stdout=log,
                                      stderr=log, timeout=limit_s).returncode
            except subprocess.TimeoutExpired:
                print(f"not done after {limit_s} s", file=log, flush=True)
                code = 124
            log.seek(begin)
            return code, log.read()

    def try_(self, what, command, limit_s, **variables):
        """Runs the command, which counts as one test. Returns whether it succeeded."""
        code, output = self.run(command, limit_s, **variables)
        if code == 0:
            self.attempt.succeed(what)
        else:
            lines = "\n  | ".join(["", *output.splitlines()[-12:]])
            self.attempt.fail(what, f"exit code {code} ({self.log}){lines}")
        return code == 0

    def count_tests(self, what, command, limit_s, **variables):
        """Runs a command whose last line is that of tools/test, and counts its tests."""
        code, output = self.run(command, limit_s, **variables)
        lines = output.splitlines()
        counts = re.fullmatch(r"(\d+) passed, (\d+) failed(?:, (\d+) skipped)?",
                              lines[-1] if lines else "")
        if not counts:
            last = "\n  | ".join(["", *lines[-12:]])
            self.attempt.fail(what, f"exit code {code} ({self.log}){last}")
            return
        passed, failed, skipped = (int(count or 0) for count in counts.groups())
        if passed:
            self.attempt.succeed(what, passed)
        for line in lines:
            if line.startswith("FAILED   "):
                self.attempt.fail(what, line.removeprefix("FAILED   "), 1 if failed else 0)
            elif line.startswith("skipped  "):
                self.attempt.skip(what, line.removeprefix("skipped  "), 0)
        self.attempt.skipped += skipped

    def make(self):
        """Unpacks a bare system into the folder."""
        archive = self._bare()
        _remove(self.folder)
        self.folder.mkdir(parents=True)
        subprocess.run(["tar", "-C", self.folder, "-xf", archive], check=True)
        self.log.write_text("")

    def clone(self):
        self.attempt.clone(self.folder / CLONE.lstrip("/"))

    def prepare(self):
        """Makes a system with all packages, unless there is one. Returns whether it succeeded."""
        listed = subprocess.run(
            ["git", "-c", f"safe.directory={CHECKOUT}", "-C", CHECKOUT, "show",
             "HEAD:tools/packages.txt"], check=True, capture_output=True).stdout
        wanted = f"{hashlib.sha256(listed).hexdigest()} {self._bare().stat().st_mtime_ns}"
        ready = self.cache / f"{self.folder.name}.ready"
        if ready.exists() and ready.read_text() == wanted:
            self.log.write_text("")
            return True
        ready.unlink(missing_ok=True)
        self.make()
        self.clone()
        if not self.try_("installing packages", "tools/setup build test", LIMIT_S["packages"]):
            return False
        ready.write_text(wanted)
        return True

    def _bare(self):
        """Returns an archive with a bare system, which is made anew if it is too old."""
        archive, new = self.cache / "bare.tar", self.cache / "bare-new.tar"
        if archive.exists() and time.time() - archive.stat().st_mtime < BARE_DAYS * 86400:
            return archive
        # A mirror may lag behind sid by more than the days for which its list is valid.
        settings = mirror.settings() + ['--aptopt=Acquire::Check-Valid-Until "false";']
        done = subprocess.run(
            ["mmdebstrap", "--variant=apt", f"--include={INCLUDED}", *settings, self.release, new,
             f"deb {mirror.debian()} {self.release} main"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S["packages"])
        if done.returncode == 0:
            new.replace(archive)
        elif not archive.exists():
            errors = [line for line in done.stderr.splitlines() if line.startswith("E: ")]
            raise Unavailable(f"mmdebstrap cannot make {self.release} from {mirror.debian()}: "
                              + (errors or done.stderr.splitlines() or ["no reason given"])[0])
        return archive


def _remove(folder):
    """Removes a root folder. Nothing is mounted in it: mounts end with their command."""
    if folder.is_mount() or any(entry.is_mount() for entry in folder.glob("*")):
        raise Unavailable(f"something is mounted in {folder}")
    shutil.rmtree(folder, ignore_errors=True)


def attempt(attempt):
    if attempt.quick and attempt.name == "debian12":
        attempt.skip(attempt.name, "tools/test is this try where it runs on Debian 12")
        return
    if os.geteuid() != 0:
        raise Unavailable("root folders need root")
    for program in ("mmdebstrap", "unshare", "setpriv", "git"):
        if shutil.which(program) is None:
            raise Unavailable(f"no {program}: tools/setup elsewhere")
    if attempt.quick:
        _attempt_quickly(Root(attempt, "prepared"))
    else:
        _attempt(Root(attempt, "full"))


def _attempt(root):
    root.make()
    root.clone()
    if not root.try_("./tools/demo", "./tools/demo", LIMIT_S["demo"]):
        return
    root.count_tests("./tools/test", "./tools/test", LIMIT_S["test"])
    for what, command in AS_NOBODY:
        root.try_(f"{what} as an ordinary user",
                  "HOME=/tmp setpriv --reuid=nobody --regid=nogroup --clear-groups sh -c "
                  + shlex.quote(command), LIMIT_S["program"])
    if root.attempt.name == "debian13":
        root.count_tests(
            "the packages on a clean system",
            "tools/setup package && tools/package --built && meson test -C build --no-rebuild "
            "--suite package --logbase packages; "
            "python3 tools/test_summary.py packages=build/meson-logs/packages.json",
            LIMIT_S["packages"])
    _remove(root.folder)


def _attempt_quickly(root):
    if not root.prepare():
        return
    root.clone()
    if root.attempt.name == "sid":
        root.try_("compiling everything with clang",
                  "tools/configure build && ninja -C build --quiet -k 0 all benchmarks",
                  LIMIT_S["build"], CC="clang", CXX="clang++")
        return
    if not root.try_("compiling everything", "tools/configure build && ninja -C build --quiet -k 0",
                     LIMIT_S["build"]):
        return
    suites = " ".join(f"--no-suite {suite}" for suite in QUICK)
    root.count_tests(
        "tests",
        f"MESON_TESTTHREADS=$(($(nproc) + 1)) meson test -C build --no-rebuild {suites}; "
        "python3 tools/test_summary.py plain=build/meson-logs/testlog.json",
        LIMIT_S["test"], WHERRY_TEST_SCALE="0.05")
