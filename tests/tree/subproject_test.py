#!/usr/bin/env python3
"""A Meson project that has Wherry as a subproject gets its libraries and nothing else. A program is
compiled, linked and run with the shared and with the static library.

The libraries are those of BUILD, copied to where the subproject would build them in minutes.

Usage: subproject_test.py ROOT BUILD MESON...
"""

import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROJECT = """
project('consumer', 'c')
foreach kind : ['shared', 'static']
  executable(kind, 'program.c',
    dependencies: dependency('wherry', fallback: 'wherry', static: kind == 'static'))
endforeach
"""
PROGRAM = """
#include <wherry/wherry.h>
int main(void) {
  int count = 0;
  return cuInit(0) != CUDA_SUCCESS || cuDeviceGetCount(&count) != CUDA_SUCCESS || count == 0;
}
"""
KINDS = {"shared", "static"}
LIBRARIES = ("libwherry.a", "libwherry.so*", "interposers/libwherry_interposers.so*")


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def executables(meson, build):
    """The programs that `ninja` would build."""
    targets = json.loads(run([*meson, "introspect", "--targets", build]))
    return {target["name"] for target in targets
            if target["type"] == "executable" and target["build_by_default"]}


def copy_libraries(build, consumer):
    for pattern in LIBRARIES:
        for path in (build / "lib").glob(pattern):
            if not path.is_dir():
                copy = consumer / "subprojects/wherry" / path.relative_to(build)
                copy.unlink(missing_ok=True)  # a symbolic link that Meson has made
                shutil.copy2(path, copy, follow_symlinks=False)


def build_program(kind, consumer):
    """Runs the commands that make the program itself, not those for the library."""
    for command in run(["ninja", "-C", consumer, "-t", "commands", kind]).splitlines():
        if f"-o {kind}" in command:
            run(command, shell=True, cwd=consumer)


def main():
    root, build, meson = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3:]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "subprojects").mkdir()
        (folder / "subprojects/wherry").symlink_to(root)
        (folder / "meson.build").write_text(PROJECT)
        (folder / "program.c").write_text(PROGRAM)
        consumer = folder / "build"
        run([*meson, "setup", "--force-fallback-for=wherry", consumer, folder])
        built = executables(meson, consumer)
        if built != KINDS:
            sys.exit(f"the subproject adds programs: {built - KINDS}")
        copy_libraries(build, consumer)
        for kind in sorted(KINDS):
            build_program(kind, consumer)
            run([consumer / kind])
            print(f"{kind}: runs")


main()
