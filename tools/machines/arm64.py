"""arm64: the programs of kernels.py, compiled in a root folder with Debian 13 and its cross
compiler, in an emulated machine with Debian 13's kernel.

The cache holds the root folder (1 GB), which is made anew when what is installed in it changes, and
after two weeks; and what its compiler has made (ccache). Commands run in the root folder by chroot,
without mounts: a compiler needs none.
"""

import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import time

from machines import emulated, kernels, mirror
from machines.attempt import Unavailable

NAMES = ("arm64",)

RELEASE = "trixie"
ROOT_DAYS = 14
INSTALLED = [
    "ca-certificates", "ccache", "crossbuild-essential-arm64", "meson", "ninja-build", "pkgconf",
    "python3", "libcli11-dev", "nlohmann-json3-dev",
    *(f"{name}:arm64" for name in (
        "busybox-static", "libboost-context-dev", "libcatch2-dev", "libfmt-dev", "libncurses-dev",
        "libnuma-dev", "liburing-dev", "zlib1g-dev"))]

SOURCE, BUILD, KERNEL = "source", "build", "kernel"  # folders in the root folder
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
          ("dpkg-deb", "dpkg"), ("git", "git")]

BUILD_LIMIT_S = 2 * 3600
# All instructions of arm64 that QEMU knows; pointer authentication as QEMU computes it fastest.
MACHINE = ["-M", "virt", "-accel", "tcg,thread=multi", "-cpu", "max,pauth-impdef=on",
           "-m", "2G", "-smp", "4"]


def to_second_line(path):
    return ["-device", "virtio-serial-pci", "-chardev", f"file,id=output,path={path}",
            "-device", "virtconsole,chardev=output"]


class Root:
    """A system with the cross compiler, in a folder. One process uses it at a time."""

    def __init__(self, attempt):
        self.attempt = attempt
        self.cache = attempt.cache / attempt.name
        self.folder = self.cache / "root"
        self.log = self.cache / "log"
        self.cache.mkdir(parents=True, exist_ok=True)
        self.lock = open(self.cache / "lock", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        self.log.write_text("")

    def run(self, command, limit_s):
        """Runs the shell command in the folder. Returns whether it succeeded."""
        environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LANG": "C.UTF-8",
                       "DEBIAN_FRONTEND": "noninteractive", "CCACHE_DIR": "/var/cache/ccache",
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

    def make(self):
        """Installs the system, unless it is there and of this kind."""
        ready = self.cache / "ready"
        kind = hashlib.sha256("\n".join(INSTALLED).encode()).hexdigest()
        if ready.exists() and ready.read_text() == kind and (
                time.time() - ready.stat().st_mtime < ROOT_DAYS * 86400):
            return
        ready.unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        made = subprocess.run(
            ["mmdebstrap", "--variant=apt", "--architectures=amd64,arm64",
             f"--include={','.join(INSTALLED)}", *mirror.settings(), "--skip=cleanup/apt/lists",
             RELEASE, self.folder, f"deb {mirror.debian()} {RELEASE} main"],
            stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if made.returncode != 0:
            errors = [line for line in made.stderr.splitlines() if line.startswith("E: ")]
            raise Unavailable(f"mmdebstrap cannot make {RELEASE} from {mirror.debian()}: "
                              + (errors or made.stderr.splitlines() or ["no reason given"])[0])
        shutil.copy("/etc/resolv.conf", self.folder / "etc/resolv.conf")
        self._get_kernel()
        ready.write_text(kind)

    def _get_kernel(self):
        """Unpacks a kernel, which is not installed."""
        if not self.run(
                f"rm -rf /{KERNEL} && mkdir /{KERNEL} && cd /{KERNEL} && apt-get -qq download "
                "$(apt-cache depends linux-image-cloud-arm64:arm64 | sed -n "
                r"'s/ *Depends: \(linux-image[^:]*\).*/\1:arm64/p') && "
                f"dpkg-deb -x linux-image-*.deb /{KERNEL}", 600):
            raise Unavailable(f"no kernel: {self.last_lines()}")

    def kernel(self):
        return next((self.folder / KERNEL / "boot").glob("vmlinuz-*"))

    def build(self, targets):
        self.attempt.clone(self.folder / SOURCE)
        (self.folder / "cross.ini").write_text(CROSS_FILE)
        return self.run(
            f"rm -rf /{BUILD} && cd /{SOURCE} && meson setup /{BUILD} --cross-file /cross.ini "
            f"-Ddebug=false -Dwerror=true -Dbench=false && ninja -C /{BUILD} {' '.join(targets)}",
            BUILD_LIMIT_S)

    def machine(self):
        return emulated.Machine(
            qemu="qemu-system-aarch64", options=MACHINE, kernel=self.kernel(),
            busybox=self.folder / "usr/bin/busybox", root=self.folder,
            strip="aarch64-linux-gnu-strip", console="ttyAMA0", output="hvc0",
            output_options=to_second_line)


def attempt(attempt):
    if os.geteuid() != 0:
        raise Unavailable("the root folder with the cross compiler needs root")
    for program, package in NEEDED:
        if shutil.which(program) is None:
            raise Unavailable(f"no {program} (package {package}): tools/setup elsewhere")
    root = Root(attempt)
    root.make()
