#!/usr/bin/env python3
"""find_package(Wherry) finds what `meson install` has installed, also where the installed tree was
moved: a C and a C++ program are built with each of its targets, and run. It accepts older versions
of the same soname, and no newer ones.

Usage: cmake_test.py BUILD MESON...
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
PROJECT = """
cmake_minimum_required(VERSION 3.19)
project(consumer C CXX)
find_package(Wherry {version} REQUIRED)
add_executable(shared shared.c)
target_link_libraries(shared PRIVATE Wherry::wherry)
add_executable(contained contained.cc)
target_link_libraries(contained PRIVATE Wherry::wherry_static)
target_compile_features(contained PRIVATE cxx_std_20)
add_executable(cuda cuda.c)
target_link_libraries(cuda PRIVATE Wherry::cuda)
"""
PROGRAM = """
#include <{header}>
#include <stdio.h>
int main(void) {{
  int count = 0;
  if (cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS) return 1;
  printf("%s devices\\n", count > 0 ? "some" : "no");
  return 0;
}}
"""
SOURCES = {"shared.c": "wherry/wherry.h", "contained.cc": "wherry/wherry.hpp", "cuda.c": "cuda.h"}


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


class Consumer:
    """A CMake project beside the moved tree."""

    def __init__(self, folder, prefix):
        self.source, self.prefix = folder / "source", prefix
        self.source.mkdir()
        for name, header in SOURCES.items():
            (self.source / name).write_text(PROGRAM.format(header=header))

    def command(self, version):
        (self.source / "CMakeLists.txt").write_text(PROJECT.format(version=version))
        return ["cmake", "-S", self.source, "-B", self.source / "build",
                f"-DCMAKE_PREFIX_PATH={self.prefix}"]

    def accepts(self, version):
        return subprocess.run(self.command(version), capture_output=True).returncode == 0


def main():
    build, meson = sys.argv[1], sys.argv[2:]
    if not shutil.which("cmake"):
        print("SKIP: no cmake (package cmake): tools/setup test")
        sys.exit(SKIPPED)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        run([*meson, "install", "-C", build, "--no-rebuild", "--quiet", "--destdir",
             folder / "root"])
        config = next((folder / "root").rglob("WherryConfig.cmake"))
        version = run(["sed", "-n", 's/^set(PACKAGE_VERSION "\\(.*\\)")$/\\1/p',
                       config.with_name("WherryConfigVersion.cmake")]).strip()
        prefix = next(folder.rglob("include/wherry/wherry.h")).parents[2]
        consumer = Consumer(folder, prefix)

        run(consumer.command(version))
        run(["cmake", "--build", consumer.source / "build"])
        # The programs have to find the library themselves.
        environment = {key: value for key, value in os.environ.items() if key != "LD_LIBRARY_PATH"}
        for program in ("shared", "contained", "cuda"):
            output = run([consumer.source / "build" / program], env=environment)
            print(f"{program}: {output.strip()}")
            if output != "some devices\n":
                sys.exit(f"{program} printed: {output}")

        expected = {"0.1": True, f"{version} EXACT": True, "0.1...0.9": True, "": True,
                    "0.9": False, "1.0": False, "0.1 EXACT": False, f"0.1...<{version}": False}
        wrong = [wanted for wanted, answer in expected.items()
                 if consumer.accepts(wanted) != answer]
        if wrong:
            sys.exit(f"find_package answers wrongly for the versions {wrong}")
    print(f"{len(expected)} requests for versions answered")


main()
