#!/usr/bin/env python3
"""Runs test programs in an emulated machine with three NUMA nodes, of which the third has no CPUs.

Usage: run.py [--kernel FOLDER] [--limit SECONDS] [--file FILE]... PROGRAM [ARGUMENT...]
              [+ PROGRAM [ARGUMENT...]]...

Builds a root file system from busybox, the programs, further files (--file: what a program starts,
loads or reads) and the shared libraries that these need, each at the same path as here, and boots
it with the kernel in FOLDER (tools/setup kernel puts one into build/guest). Now and then an
emulated CPU stops while Linux starts; then the machine is started again. It runs each program in
turn, also after one has failed. Prints the output of each and exits with 1 if
one failed, else with 77 if one was skipped or the machine cannot be built here, else with 0.
Placement and residency in the machine are meaningful, timings are not.
"""

import argparse
import glob
import os
import pathlib
import re
import secrets
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
# Seconds until the first program begins: ten, or some tens on a busy machine.
START_LIMIT = 120
STARTS = 3

INIT = """#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/shm
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t tmpfs tmpfs /dev/shm
{environment}
# The program writes to the second serial line, so that Linux's messages on the first are separate.
# The line is opened once: opening it while it is being closed fails (EAGAIN), and closing takes a
# while.
exec 3>/dev/ttyS1
stty -F /dev/ttyS1 raw
echo "{mark} begins" >&3
{commands}
poweroff -f
"""

COMMAND = """{words} </dev/null >&3 2>&3
echo "{mark} $?" >&3"""

MACHINE = [
    "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "1536M", "-smp", "4",
    "-object", "memory-backend-ram,id=m0,size=512M",
    "-object", "memory-backend-ram,id=m1,size=512M",
    "-object", "memory-backend-ram,id=m2,size=512M",
    "-numa", "node,nodeid=0,memdev=m0,cpus=0-1",
    "-numa", "node,nodeid=1,memdev=m1,cpus=2-3",
    "-numa", "node,nodeid=2,memdev=m2",
    "-numa", "dist,src=0,dst=1,val=21",
    "-numa", "dist,src=0,dst=2,val=30",
    "-numa", "dist,src=1,dst=2,val=30",
    "-display", "none", "-nodefaults", "-no-reboot",
]


def skip(reason):
    print(f"SKIP: {reason}")
    sys.exit(SKIPPED)


def tool(name, package):
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    return shutil.which(name, path=path) or skip(f"no {name} (package {package})")


def shared_libraries(program):
    listing = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(?:=> )?(/\S+) \(0x", listing)


def shell_quote(word):
    return "'" + word.replace("'", "'\\''") + "'"


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def carry(path, root):
    """Puts the file at the same path below root, with the shared libraries that it needs."""
    inside = root / path.lstrip("/")
    if inside.exists():
        return
    inside.parent.mkdir(parents=True, exist_ok=True)
    if not is_elf(path):
        shutil.copy(path, inside)
        return
    # Debug information would be most of the image, and is not needed in the machine.
    subprocess.run(["strip", "--strip-debug", "-o", inside, path], check=True)
    for library in shared_libraries(path):
        carry(library, root)


def build_initrd(folder, busybox, commands, files, environment, mark):
    root = folder / "root"
    for name in ("bin", "dev", "proc", "sys", "tmp", "etc"):
        (root / name).mkdir(parents=True)
    shutil.copy(busybox, root / "bin/busybox")
    for file in [program for program, *_ in commands] + files:
        carry(os.path.abspath(file), root)

    def line(program, *arguments):
        words = [os.path.abspath(program), *arguments]
        return COMMAND.format(words=" ".join(map(shell_quote, words)), mark=mark)

    init = root / "init"
    init.write_text(INIT.format(
        mark=mark,
        environment="\n".join(f"export {shell_quote(setting)}" for setting in environment),
        commands="\n".join(line(*command) for command in commands)))
    init.chmod(0o755)

    image = folder / "initrd"
    names = "\n".join(str(path.relative_to(root)) for path in sorted(root.rglob("*")))
    with image.open("wb") as out:
        subprocess.run(["cpio", "--quiet", "-o", "-H", "newc"], cwd=root, input=names.encode(),
                       stdout=out, check=True)
    return image


def boot(qemu, kernel, image, folder, mark, limit):
    """Linux's output, the programs' output or None if none began, and whether the machine stopped
    by itself in time."""
    console, output = folder / "console", folder / "output"
    beginning = f"{mark} begins\n"

    def text(path):
        return path.read_text(errors="replace").replace("\r", "") if path.exists() else ""

    def ends_within(seconds):
        try:
            machine.wait(seconds)
            return True
        except subprocess.TimeoutExpired:
            return False

    command = [
        qemu, *MACHINE, "-kernel", kernel, "-initrd", str(image),
        "-append", "console=ttyS0 panic=-1 quiet",
        "-serial", f"file:{console}", "-serial", f"file:{output}",
    ]
    machine = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        in_time = ends_within(START_LIMIT) or (beginning in text(output) and ends_within(limit))
    finally:
        machine.kill()  # does nothing if it has ended
        machine.wait()
    _, begins, said = text(output).partition(beginning)
    return text(console), said if begins else None, in_time


def split(words, separator):
    """The lists of words between the separators."""
    lists = [[]]
    for word in words:
        if word == separator:
            lists.append([])
        else:
            lists[-1].append(word)
    return lists


def results(output, mark):
    """What each program printed with its exit code, and what followed the last with None."""
    pieces = re.split(f"{mark} (\\d+)\n", output)
    return list(zip(pieces[::2], [int(code) for code in pieces[1::2]] + [None]))


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
    environment = [f"{name}={value}" for name, value in os.environ.items()
                   if name.startswith("WHERRY_")]

    qemu = tool("qemu-system-x86_64", "qemu-system-x86")
    busybox = tool("busybox", "busybox-static")
    tool("cpio", "cpio")
    kernels = sorted(glob.glob(f"{options.kernel}/boot/vmlinuz-*"))
    if not kernels:
        skip(f"no kernel for the virtual machine in {options.kernel} (tools/setup kernel)")

    # In the build folder, where there is room: /tmp may be memory.
    with tempfile.TemporaryDirectory(prefix="run-", dir=options.kernel) as name:
        folder = pathlib.Path(name)
        mark = f"guest-exit-{secrets.token_hex(8)}"
        image = build_initrd(folder, busybox, commands, options.files, environment, mark)
        for _ in range(STARTS):
            console, output, in_time = boot(qemu, kernels[-1], image, folder, mark, options.limit)
            if output is not None:
                break
            print("the virtual machine did not start; the kernel's last words:")
            print("\n".join(console.splitlines()[-5:]), flush=True)
        else:
            sys.exit(1)

    names = [" ".join([pathlib.Path(program).name, *words]) for program, *words in commands]
    ended = results(output, mark)
    for name, (said, _) in zip(names, ended):
        print(f"== {name}\n{said}", end="")
    if len(ended) <= len(commands):
        late = f"the limit of {options.limit:g} s passed"
        why = "the virtual machine stopped" if in_time else late
        print(f"\n{why} before the programs had ended; the kernel's last words:")
        print("\n".join(console.splitlines()[-40:]))
        sys.exit(1)
    if re.search(r"\b(BUG|Oops|WARNING):", console):
        print(f"\nthe kernel complained:\n{console}")
    failed = [name for name, (_, code) in zip(names, ended) if code not in (0, SKIPPED)]
    if failed:
        print(f"\nfailed: {', '.join(failed)}")
        sys.exit(1)
    sys.exit(SKIPPED if any(code == SKIPPED for _, code in ended) else 0)


main()
