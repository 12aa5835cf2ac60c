#!/usr/bin/env python3
"""Every header of lib/ compiles when it is included alone; public ones with every installed
compiler, and as C if they are C. Every source file compiles alone.

The build compiles the files of a folder as one, where a file sees what earlier ones include. So at
full length a tenth of the source files is compiled alone, another tenth each time, and a quarter of
the headers. A header that a source file includes first is not tried by itself.

Usage: headers_test.py LIB CXX...
CXX is the compiler of this build, with its arguments.
"""

import concurrent.futures
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from length import IS_SHORT, some_of  # noqa: E402

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
MODERN = ["-x", "c++", "-std=c++20"]
C11 = ["-x", "c", "-std=c11"]


def compile_lines(command, lines):
    """The compiler's errors for a source with only these lines; empty if there are none."""
    run = subprocess.run(
        [*command, *WARNINGS, "-fsyntax-only", "-"], input=lines, capture_output=True, text=True)
    return "" if run.returncode == 0 else f"{' '.join(command)}: {lines}{run.stderr}"


def twice(header):
    """The second inclusion must have no effect."""
    return f"#include {header}\n" * 2


def first_include(source):
    found = re.search(r'^#include "(.*)"|^#include <', source.read_text(), re.MULTILINE)
    return found and found.group(1)


def is_refusal(header):
    """Whether it only says that there is no such header."""
    return header.read_text().startswith("#error")


def jobs_for(lib, build_compiler):
    includes = ["-I", str(lib / "include")]
    public = sorted((lib / "include/wherry").glob("*.h*"))
    # Those of another architecture need its compiler (tools/elsewhere arm64).
    sources = [source for source in sorted(lib.rglob("*.cc"))
               if source.parent.parent.name != "arch" or source.parent.name == platform.machine()]
    for source in [] if IS_SHORT else some_of(sources, "source files", part=0.1):
        yield ([*build_compiler, *MODERN, '-DWHERRY_VERSION="0"', *includes,
                "-I", str(lib)], f'#include "{source}"\n')
    come_first = {first_include(source) for source in sources}
    # The parts in wherry/detail/ count as internal: programs include cuda.h.
    internal = [str(header.relative_to(lib)) for header in sorted(lib.rglob("*.h"))
                if header not in public and not is_refusal(header)]
    internal = [name for name in internal if name not in come_first]
    for name in some_of(internal, "internal headers", part=0.25):
        yield [*build_compiler, *MODERN, *includes, "-I", str(lib)], twice(f'"{name}"')

    yield from some_of(public_jobs(lib, includes, public), "ways to include a public header",
                       part=0.25, below_full=0.8)


def public_jobs(lib, includes, public):
    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    old_names = ["-DWHERRY_CUDA_API=12"]
    for header in public:
        include = twice(f"<{header.relative_to(lib / 'include')}>")
        for cxx in compilers:
            yield [cxx, *MODERN, *includes], include
            if header.suffix == ".h":
                cc = {"g++": "gcc", "clang++": "clang"}[cxx]
                for extra in ([], old_names):
                    yield [cc, *C11, *includes, *extra], include
                yield [cxx, *MODERN, *includes, *old_names], include
    for command in ([["gcc", *C11]] + [[cxx, *MODERN] for cxx in compilers]):
        for name in ("cuda.h", "cuda_runtime_api.h"):
            yield [*command, "-I", str(lib / "include/wherry")], twice(f"<{name}>")


def main():
    lib = pathlib.Path(sys.argv[1])
    jobs = list(jobs_for(lib, sys.argv[2:]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda job: compile_lines(*job), jobs) if text]
    print("\n".join(complaints) or f"{len(jobs)} ways to compile one file alone: all work")
    sys.exit(1 if complaints else 0)


main()
