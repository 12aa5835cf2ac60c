#!/usr/bin/env python3
"""A program's calls of the C library's signal functions reach Wherry's interposers
(lib/interposers) wherever Wherry comes before the C library. A program that calls only those
functions is not linked with Wherry. Without the interposers the library does not start.

Usage: interposition_test.py SOURCES COMPAT CC...
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

OURS = r"libwherry_interposers\.so\.0.*"
THEIRS = r"libc\.so\.6"
CLEAN = {name: value for name, value in os.environ.items()
         if name not in ("LD_PRELOAD", "LD_LIBRARY_PATH")}
EVERY = "-Wl,--no-as-needed"


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Programs:
    def __init__(self, sources, compat, compiler, folder):
        self.client, self.compat, self.compiler = sources / "interposed_client.c", compat, compiler
        self.library, self.folder = compat.parent, pathlib.Path(folder)
        self.errors = 0

    def build(self, name, *link):
        program = self.folder / name
        run([*self.compiler, "-std=gnu11", "-w", self.client, "-o", program, "-L", self.library,
             "-L", self.compat, f"-Wl,-rpath,{self.library}:{self.compat}", *link, "-ldl"])
        return program

    def report(self, name, error):
        self.errors += bool(error)
        print(f"{name}: {error or 'ok'}")

    def check(self, name, expected, program, *arguments, **environment):
        """All functions of the program must come from the file `expected`."""
        output = run([program, *arguments], env=CLEAN | environment)
        found = dict(line.split() for line in output.splitlines())
        self.report(name, {function: file for function, file in found.items()
                           if not re.fullmatch(expected, file)})

    def check_order(self):
        plain = self.build("plain")
        wherry, cuda = str(self.library / "libwherry.so.0"), str(self.compat / "libcuda.so.1")
        check, build = self.check, self.build
        check("linked with -lwherry", OURS, build("wherry", EVERY, "-lwherry"))
        check("linked with -lcuda", OURS, build("cuda", EVERY, "-lcuda"))
        check("linked with -lcudart", OURS, build("cudart", EVERY, "-lcudart"))
        check("linked with -lcudart -lwherry", OURS, build("both", EVERY, "-lcudart", "-lwherry"))
        check("libwherry preloaded", OURS, plain, LD_PRELOAD=wherry)
        check("libcuda preloaded", OURS, plain, LD_PRELOAD=cuda)
        # The C library comes first.
        check("linked with -lc -lwherry", THEIRS, build("last", EVERY, "-lc", "-lwherry"))
        check("libwherry loaded by dlopen", THEIRS, plain, wherry)
        check("libcuda loaded by dlopen", THEIRS, plain, cuda)
        check("without Wherry", THEIRS, plain)

    def check_link(self):
        needed = run(["readelf", "-d", self.build("unused", "-Wl,--as-needed", "-lwherry")])
        self.report("linked with --as-needed -lwherry", needed if "libwherry" in needed else None)

    def check_start(self):
        """cuInit in a program that loads the library, with and without the interposers."""
        def start(library):
            code = f"import ctypes; print(ctypes.CDLL({str(library)!r}).cuInit(0))"
            done = subprocess.run([sys.executable, "-c", code], env=CLEAN, capture_output=True,
                                  text=True)
            return done.stdout, done.stderr

        library = self.library / "libwherry.so.0"
        output, log = start(library)
        self.report("start", None if output == "0\n" else output + log)
        output, log = start(shutil.copy(library, self.folder))
        is_refused = output == "304\n" and "cannot load libwherry_interposers.so.0" in log
        self.report("start without the interposers", None if is_refused else output + log)


def main():
    sources, compat = map(pathlib.Path, sys.argv[1:3])
    with tempfile.TemporaryDirectory() as folder:
        programs = Programs(sources, compat, sys.argv[3:], folder)
        programs.check_order()
        programs.check_link()
        programs.check_start()
    sys.exit(1 if programs.errors else 0)


main()
