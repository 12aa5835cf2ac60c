"""Runs programs in an emulated machine: packs them with their libraries into an initrd, boots that
with QEMU, and reads what each program printed and its exit code.

The programs write to a second serial line, so that Linux's messages on the first are separate."""

import dataclasses
import functools
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Callable

# Limit in seconds until the first program begins, which takes ten, or tens on a busy machine.
START_LIMIT = 120
# Starts that are tried, because now and then an emulated CPU stops while Linux starts.
STARTS = 3

DISK_BYTES = 256 << 20

# Software emulation of a 64-bit PC. Without cmpxchg16b, whose emulation in QEMU 7.2 destroys flags:
# with it, Linux 6.12 ends with a double fault in most starts.
EMULATED_PC = ["-accel", "tcg,thread=multi", "-cpu", "max,cx16=off"]

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
mount -t ext4 /dev/nvme0n1 /var/tmp 2>/dev/null || mount -t tmpfs tmpfs /var/tmp
chmod 1777 /dev/shm /tmp /var/tmp
{environment}
# The line is opened once: opening it while it is being closed fails (EAGAIN), and closing takes a
# while.
exec 3>/dev/{line}
stty -F /dev/{line} raw
echo "{mark} begins" >&3
{commands}
poweroff -f
"""

# The seconds are those since the machine started. Before each program Linux drops its caches and
# compacts memory: a small machine that has run many programs has no huge pages left, which tests
# expect.
COMMAND = """echo 3 >/proc/sys/vm/drop_caches
echo 1 >/proc/sys/vm/compact_memory
echo "{mark} at $(cut -d ' ' -f 1 /proc/uptime)" >&3
{words} </dev/null >&3 2>&3
echo "{mark} ends $? at $(cut -d ' ' -f 1 /proc/uptime)" >&3"""

# The programs colour their output, because a serial line is a terminal.
COLOUR = re.compile(r"\x1b\[[\d;]*m")

USERS = "root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"


@dataclasses.dataclass
class Machine:
    """An emulated machine. Programs, their libraries and busybox are taken from below root: a root
    folder of Debian for its architecture, or / of this machine."""

    qemu: str  # the program
    options: list  # -cpu, -m, -smp and others; not the kernel, the initrd and the serial lines
    kernel: pathlib.Path  # the image
    busybox: pathlib.Path  # linked statically
    root: pathlib.Path = pathlib.Path("/")
    strip: str = "strip"  # the program for this architecture
    console: str = "ttyS0"  # the names of the two serial lines in the machine
    output: str = "ttyS1"
    # QEMU's options for the second line, which writes to the file.
    output_options: Callable = lambda path: ["-serial", f"file:{path}"]


@dataclasses.dataclass
class Command:
    """One program to run, with its arguments; words[0] is its path on this machine."""

    words: list
    environment: dict = dataclasses.field(default_factory=dict)  # besides that of all programs
    limit: float = 0  # seconds, after which it is ended with SIGTERM; 0 is none
    user: str = "root"  # or "nobody"


@dataclasses.dataclass
class Ended:
    """What a program printed, its exit code (143 if its own limit passed), and how long it ran."""

    output: str
    code: int
    seconds: float


@dataclasses.dataclass
class Outcome:
    """began: the machine started. in_time: it stopped by itself. ended: the programs that ended, in
    the order of the commands. rest: the output of the one that did not end. console: Linux's
    messages."""

    began: bool
    in_time: bool
    ended: list
    rest: str
    console: str

    def complaint(self):
        """Linux's message about an error of its own, or None. Soft lockups do not count: emulated
        CPUs seem stuck if this machine is busy."""
        for line in self.console.splitlines():
            if re.search(r"\b(BUG|Oops|WARNING):", line) and "soft lockup" not in line:
                return line
        return None

    def last_words(self, lines):
        return "\n".join(self.console.splitlines()[-lines:])


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


@functools.cache
def describe(path):
    """What readelf says of an ELF file."""
    return subprocess.run(["readelf", "-W", "-h", "-l", "-d", path], capture_output=True, text=True,
                          check=True).stdout


def architecture(path):
    return re.search(r"Machine: +(.*)", describe(path)).group(1)


class Packer:
    """Copies files to a folder, at their paths below the machine's root."""

    def __init__(self, machine, folder):
        self.machine, self.folder = machine, folder
        configured = [line.strip()
                      for file in sorted((machine.root / "etc/ld.so.conf.d").glob("*.conf"))
                      for line in file.read_text().splitlines() if line.startswith("/")]
        self.library_folders = [*configured, "/lib", "/usr/lib"]

    def carry(self, path):
        """Copies a file or a folder, and the libraries that it needs."""
        path = pathlib.Path(path).absolute()
        if path.is_dir():
            for inner in path.iterdir():
                self.carry(inner)
            return
        inside = self.folder / path.relative_to(self.machine.root)
        if inside.exists():
            return
        inside.parent.mkdir(parents=True, exist_ok=True)
        if not is_elf(path):
            shutil.copy(path, inside)
            return
        # Debug information would be most of the image, and is not needed in the machine.
        subprocess.run([self.machine.strip, "--strip-debug", "-o", inside, path], check=True)
        for library in self.needed(path):
            self.carry(library)

    def needed(self, path):
        """The dynamic loader and the libraries that an ELF file names."""
        said = describe(path)
        for loader in re.findall(r"program interpreter: (\S+)\]", said):
            yield self.below_root(loader)
        own = [folder.replace("$ORIGIN", "/" + str(path.parent.relative_to(self.machine.root)))
               for folders in re.findall(r"\((?:RUNPATH|RPATH)\).*\[(.*)\]", said)
               for folder in folders.split(":")]
        for name in re.findall(r"\((?:NEEDED|AUXILIARY)\).*\[(.*)\]", said):
            yield self.library(name, own, path)

    def library(self, name, own, program):
        for folder in [*own, *self.library_folders]:
            found = self.below_root(folder) / name
            if found.exists() and architecture(found) == architecture(program):
                return found
        raise FileNotFoundError(f"{program} needs {name}, which is not in {self.machine.root}")

    def below_root(self, path):
        return self.machine.root / path.lstrip("/")


def shell_quote(word):
    return "'" + str(word).replace("'", "'\\''") + "'"


def export(environment):
    return "\n".join(f"export {shell_quote(f'{name}={value}')}"
                     for name, value in environment.items())


def line(machine, command, mark):
    program, *arguments = command.words
    words = ["/" + str(pathlib.Path(program).absolute().relative_to(machine.root)), *arguments]
    if command.environment:
        words = ["env", *(f"{name}={value}" for name, value in command.environment.items()), *words]
    if command.user != "root":
        words = ["su", "-s", "/bin/sh", command.user, "-c",
                 "exec " + " ".join(map(shell_quote, words))]
    if command.limit:
        words = ["timeout", f"{command.limit:g}", *words]
    return COMMAND.format(words=" ".join(map(shell_quote, words)), mark=mark)


def build_initrd(machine, folder, commands, files, environment, mark):
    root = folder / "root"
    for name in ("bin", "dev", "proc", "sys", "tmp", "etc", "var/tmp"):
        (root / name).mkdir(parents=True)
    shutil.copy(machine.busybox, root / "bin/busybox")
    (root / "etc/passwd").write_text(USERS)
    packer = Packer(machine, root)
    for file in [command.words[0] for command in commands] + files:
        packer.carry(file)

    init = root / "init"
    init.write_text(INIT.format(
        mark=mark, line=machine.output, environment=export(environment),
        commands="\n".join(line(machine, command, mark) for command in commands)))
    init.chmod(0o755)

    image = folder / "initrd"
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with image.open("wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names.encode(),
                       stdout=out, check=True)
    shutil.rmtree(root)
    return image


def disk_options(folder):
    """Options for a disk for /var/tmp, if mke2fs is there: files in memory have no direct I/O
    before Linux 6.6. Debian's kernels have the drivers of NVMe disks and of ext4 built in."""
    maker = shutil.which("mke2fs", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not maker:
        return []
    disk = folder / "disk"
    with disk.open("wb") as file:
        file.truncate(DISK_BYTES)
    subprocess.run([maker, "-q", "-F", "-t", "ext4", disk], check=True)
    return ["-drive", f"file={disk},if=none,id=disk,format=raw,cache=unsafe",
            "-device", "nvme,drive=disk,serial=1"]


def boot(machine, image, folder, mark, limit, start_limit):
    """Boots the machine. Returns Linux's output, the programs' output (None if none began), and
    whether the machine stopped by itself in time."""
    console, output = folder / "console", folder / "output"
    beginning = f"{mark} begins\n"

    def text(path):
        if not path.exists():
            return ""
        return COLOUR.sub("", path.read_text(errors="replace").replace("\r", ""))

    def ends_within(seconds):
        try:
            process.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    process = subprocess.Popen([
        "setpriv", "--pdeathsig=KILL", machine.qemu, *machine.options,
        "-kernel", machine.kernel, "-initrd", image,
        # tsc=unstable: no cycle counter as a clock. On busy CPUs Linux measures its rate wrongly
        # (in one run a second was a third of a second), or finds it unstable and changes its code
        # at run time, at which QEMU 7.2 crashed with Linux 7.
        "-append", f"console={machine.console} panic=-1 quiet tsc=unstable",
        "-display", "none", "-nodefaults", "-no-reboot",
        "-serial", f"file:{console}", *machine.output_options(output), *disk_options(folder),
    ], stdin=subprocess.DEVNULL)
    try:
        in_time = ends_within(start_limit) or (beginning in text(output) and ends_within(limit))
    finally:
        process.kill()  # does nothing if it has ended
        process.wait()
    _, begins, said = text(output).partition(beginning)
    return text(console), said if begins else None, in_time


def results(output, mark):
    """The programs that ended, and the output after the end of the last of them."""
    pieces = re.split(f"{mark} at ([\\d.]+)\n(.*?){mark} ends (\\d+) at ([\\d.]+)\n", output,
                      flags=re.DOTALL)
    *groups, rest = pieces
    ended = [Ended(said, int(code), float(end) - float(begin)) for begin, said, code, end in
             zip(groups[1::5], groups[2::5], groups[3::5], groups[4::5])]
    return ended, re.sub(f"{mark} at .*\n", "", rest)


def run(machine, commands, files, environment, limit, folder, starts=STARTS,
        start_limit=START_LIMIT):
    """Runs the commands in turn, also after one has failed, and gives an Outcome. files: what the
    programs start, load or read, besides their libraries. limit: the seconds that all of them may
    take. folder: for large temporary files, because /tmp may be memory. A machine that does not
    start within start_limit is started again."""
    with tempfile.TemporaryDirectory(prefix="run-", dir=folder) as name:
        place = pathlib.Path(name)
        mark = f"guest-{secrets.token_hex(8)}"
        image = build_initrd(machine, place, commands, files, environment, mark)
        for _ in range(starts):
            console, output, in_time = boot(machine, image, place, mark, limit,
                                            start_limit)
            if output is not None:
                ended, rest = results(output, mark)
                return Outcome(True, in_time, ended, rest, console)
            failed = Outcome(False, in_time, [], "", console)
            print("the virtual machine did not start; the kernel's last words:\n"
                  + failed.last_words(5), flush=True)
        return failed
