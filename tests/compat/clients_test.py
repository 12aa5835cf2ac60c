#!/usr/bin/env python3
"""Programs that were made for CUDA run on Wherry with LD_LIBRARY_PATH alone: linked with -lcuda or
-lcudart, or loading the driver at run time. If they also link with Wherry, only one instance of it
is loaded.

Usage: clients_test.py SOURCES INCLUDE COMPAT CC...
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

# The libraries of Wherry that a program may be linked with: those with NVIDIA's names.
THEIR_LIBRARIES = {"libcuda.so.1", "libcudart.so.13"}


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done


def toolkit_headers():
    """NVIDIA's headers of the CUDA version of Wherry's headers. None: not installed."""
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        folder = pathlib.Path(home or "/nonexistent", "include")
        header = folder / "cuda_runtime_api.h"
        if header.exists() and "#define CUDART_VERSION  13000" in header.read_text():
            return folder
    return None


def needed(program):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", run(["readelf", "-d", program]).stdout))


class Clients:
    def __init__(self, sources, include, compat, compiler, folder):
        self.sources, self.include, self.compat, self.compiler = sources, include, compat, compiler
        self.folder = pathlib.Path(folder)
        # The caller's environment may select real GPUs.
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        self.environment = clean | {"LD_LIBRARY_PATH": str(compat),
                                    "WHERRY_DEVICES": "capacity=64M"}

    def build(self, name, *link, headers=None):
        program = self.folder / name
        run([*self.compiler, "-std=gnu11", "-w", "-I", headers or self.include / "wherry", "-I",
             self.include, self.sources / f"{name}_client.c", "-o", program, "-L", self.compat,
             *link])
        return program

    def build_kernels(self):
        library = self.folder / "kernels.so"
        run([*self.compiler, "-std=gnu11", "-shared", "-fPIC", "-I", self.include,
             self.sources / "kernels.c", "-o", library])
        return library

    def check(self, name, program, *arguments, **more):
        """Checks that the program runs, and writes only these lines to stderr."""
        lines = more.pop("lines", [])
        done = run([program, *arguments], env=self.environment | more)
        if done.stdout != "done\n" or done.stderr.splitlines() != lines:
            sys.exit(f"{name}: {done.stdout}{done.stderr}")
        print(f"{name}: runs")


def main():
    sources, include, compat = map(pathlib.Path, sys.argv[1:4])
    refused = ["wherry: cuTensorMapReplaceAddress is not supported"]
    with tempfile.TemporaryDirectory() as folder:
        clients = Clients(sources, include, compat, sys.argv[4:], folder)

        for name, library in (("driver", "libcuda.so.1"), ("runtime", "libcudart.so.13")):
            program = clients.build(name, f"-l{library[3:].split('.')[0]}")
            if library not in needed(program) or any("wherry" in each for each in needed(program)):
                sys.exit(f"{program} needs {needed(program)}")
            clients.check(name, program)
        # Programs that were linked with NVIDIA's library require this symbol version.
        symbols = run(["nm", "--dynamic", "--with-symbol-versions",
                       clients.folder / "runtime"]).stdout
        if "cudaMallocManaged@libcudart.so.13" not in symbols:
            sys.exit(f"no versions in the runtime client:\n{symbols}")

        # With Wherry's headers, and with NVIDIA's.
        kernels = clients.build_kernels()
        two = {"WHERRY_DEVICES": "capacity=64M;capacity=32M", "CUDA_VISIBLE_DEVICES": "1,0"}
        if toolkit_headers() is None:
            print("query with NVIDIA's headers: not tried, those of CUDA 13.0 are not installed")
        for headers in {None, toolkit_headers()}:
            program = clients.build("query", "-lcudart", headers=headers)
            clients.check(f"query with {headers or 'our headers'}", program, str(kernels), **two)

        # In such a program the address of a library's function is an address in the program itself.
        linked = clients.build("linked", "-no-pie", "-fno-pie", "-lcudart", kernels,
                               f"-Wl,-rpath,{clients.folder}")
        clients.check("linked with kernels", linked)

        loading = clients.build("loading", "-ldl")
        for name in ("libcuda.so.1", str(compat / "libcuda.so.1")):
            clients.check(f"loading {name}", loading, name, lines=refused)
        # Preloaded into a program that does not know of it.
        clients.check("preloaded", loading, "libcuda.so.1", lines=refused,
                      LD_PRELOAD=str(compat / "libcuda.so.1"))

        libraries = ["-lcuda", "-lcudart", str(compat.parent / "libwherry.so"),
                     f"-Wl,-rpath,{compat.parent}", "-ldl"]
        for order in (libraries, libraries[2:3] + libraries[:2] + libraries[3:]):
            clients.check("both", clients.build("both", "-Wl,--no-as-needed", *order))

    for name in sorted(THEIR_LIBRARIES):
        dynamic = run(["readelf", "-d", compat / name]).stdout
        if f"Library soname: [{name}]" not in dynamic:
            sys.exit(f"{name}: {dynamic}")


main()
