#!/usr/bin/env python3
"""Every header of lib/ compiles when it is included alone; public ones with every installed
compiler, and as C if they are C.

A header that a source file includes first is not tried: the build compiles that file.

Usage: headers_test.py LIB CXX...
CXX is the compiler of this build, with its arguments.
"""

import concurrent.futures
import math
import os
import pathlib
import random
import re
import shutil
import subprocess
import sys

WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Werror"]
MODERN = ["-x", "c++", "-std=c++20"]
C11 = ["-x", "c", "-std=c11"]


def compile_alone(command, include):
    """The compiler's errors for a source with only this line; empty if there are none."""
    # Includes it twice: the second inclusion must have no effect.
    source = f"#include {include}\n" * 2
    run = subprocess.run(
        [*command, *WARNINGS, "-fsyntax-only", "-"], input=source, capture_output=True, text=True)
    return "" if run.returncode == 0 else f"{' '.join(command)}: #include {include}\n{run.stderr}"


def first_include(source):
    found = re.search(r'^#include "(.*)"|^#include <', source.read_text(), re.MULTILINE)
    return found and found.group(1)


def is_refusal(header):
    """Whether it only says that there is no such header."""
    return header.read_text().startswith("#error")


def some_of(names):
    """With WHERRY_TEST_SCALE below 1 that part of them, a different one each time."""
    count = math.ceil(len(names) * min(1.0, float(os.environ.get("WHERRY_TEST_SCALE", 1))))
    seed = random.randrange(1 << 32)
    print(f"{count} of {len(names)} internal headers, seed {seed}")
    return random.Random(seed).sample(names, count)


def jobs_for(lib, build_compiler):
    includes = ["-I", str(lib / "include")]
    public = sorted((lib / "include/wherry").glob("*.h*"))
    come_first = {first_include(source) for source in lib.rglob("*.cc")}
    # The parts in wherry/detail/ count as internal: programs include cuda.h.
    internal = [str(header.relative_to(lib)) for header in sorted(lib.rglob("*.h"))
                if header not in public and not is_refusal(header)]
    internal = [name for name in internal if name not in come_first]
    for name in some_of(internal):
        yield [*build_compiler, *MODERN, *includes, "-I", str(lib)], f'"{name}"'

    compilers = [name for name in ("g++", "clang++") if shutil.which(name)]
    old_names = ["-DWHERRY_CUDA_API=12"]
    for header in public:
        include = f"<{header.relative_to(lib / 'include')}>"
        for cxx in compilers:
            yield [cxx, *MODERN, *includes], include
            if header.suffix == ".h":
                cc = {"g++": "gcc", "clang++": "clang"}[cxx]
                for extra in ([], old_names):
                    yield [cc, *C11, *includes, *extra], include
                yield [cxx, *MODERN, *includes, *old_names], include
    for command in ([["gcc", *C11]] + [[cxx, *MODERN] for cxx in compilers]):
        for name in ("cuda.h", "cuda_runtime_api.h"):
            yield [*command, "-I", str(lib / "include/wherry")], f"<{name}>"


def main():
    lib = pathlib.Path(sys.argv[1])
    jobs = list(jobs_for(lib, sys.argv[2:]))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = [text for text in pool.map(lambda job: compile_alone(*job), jobs) if text]
    print("\n".join(complaints) or f"{len(jobs)} ways to include one header alone: all compile")
    sys.exit(1 if complaints else 0)


main()
