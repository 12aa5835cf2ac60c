#!/usr/bin/env python3
"""A program whose kernels the CUDA compiler has compiled gets an error for each launch
(cudaErrorNoKernelImageForDevice), the log gives the reason once, and the host can use managed
variables.

compiled_client.c makes the calls that nvcc's output makes. If nvcc for CUDA 13 is installed
($CUDA_HOME, /usr/local/cuda), real programs are compiled and run, too.

Usage: compiled_test.py SOURCES INCLUDE COMPAT CC...
"""

import os
import pathlib
import subprocess
import sys
import tempfile

NO_RUN = ("wherry: kernel {} does not run, nor do other kernels that nvcc compiled: "
          "they are GPU code (cudaErrorNoKernelImageForDevice); "
          "write kernels as C++ functions, see docs/variables-and-modules.md")
ZEROS = ("wherry: __managed__ {}: starts as zeros, because its initial value is in GPU code only; "
         "assign it in the program")
ORDINARY = ("wherry: __managed__ variables are ordinary host memory: "
            "managed memory is not available: ")
NO_TABLE = ("wherry: NVIDIA's own CUDA runtime, linked into this program or loaded by it, "
            "cannot continue: ")
NO_IMAGE = "cudaErrorNoKernelImageForDevice"


def run(command, **options):
    return subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          timeout=300, **options)


def build(command):
    done = run(command)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: {done.returncode}\n{done.stdout}{done.stderr}")


def find_nvcc():
    for home in (os.environ.get("CUDA_HOME"), "/usr/local/cuda"):
        nvcc = pathlib.Path(home or "/nonexistent", "bin/nvcc")
        if nvcc.exists() and "release 13." in run([nvcc, "--version"]).stdout:
            return nvcc
    return None


class Programs:
    def __init__(self, compat):
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
        self.environment = clean | {"LD_LIBRARY_PATH": str(compat),
                                    "WHERRY_DEVICES": "capacity=64M"}

    def check(self, what, command, status, printed, said, **more):
        """Checks the exit status, the output, and the beginnings of the log's lines."""
        done = run(command, env=self.environment | more)
        lines = done.stderr.splitlines()
        is_said = (len(lines) == len(said)
                   and all(line.startswith(start) for line, start in zip(lines, said)))
        if (done.returncode, done.stdout.splitlines()) != (status, printed) or not is_said:
            sys.exit(f"{what}: ended with {done.returncode}\n{done.stdout}{done.stderr}")
        print(f"{what}: as expected")


def check_nvcc(programs, nvcc, sources, folder):
    for name, options in (("shared", []), ("relocatable", ["-rdc=true"])):
        build([nvcc, "-cudart", "shared", *options, sources / "variables.cu", "-o", folder / name])
        programs.check(f"variables, {name}", [folder / name], 0,
                       ["variables: 43 2.5 -1", f"last: {NO_IMAGE}", "synchronize: cudaSuccess",
                        f"to counter: {NO_IMAGE}", f"from factor: {NO_IMAGE}",
                        "to total: cudaSuccess", "variables: 9 2.5 -1"],
                       [ZEROS.split("{}")[0], NO_RUN.format("add(int)")])
    build([nvcc, "-cudart", "shared", sources / "kernel_only.cu", "-o", folder / "kernel_only"])
    programs.check("kernel only", [folder / "kernel_only"], 0,
                   ["allocate: cudaSuccess", f"peek: {NO_IMAGE}", f"last: {NO_IMAGE}",
                    "synchronize: cudaSuccess", "number: 5"],
                   [NO_RUN.format("add(int*, int)")])
    # NVIDIA's own runtime is linked into the program.
    build([nvcc, "-cudart", "static", sources / "kernel_only.cu", "-o", folder / "static"])
    programs.check("NVIDIA's runtime", [folder / "static"], 3,
                   ["allocate: cudaErrorSymbolNotFound"], [NO_TABLE])


def main():
    sources, include, compat = map(pathlib.Path, sys.argv[1:4])
    programs = Programs(compat)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        client = folder / "compiled"
        build([*sys.argv[4:], "-std=gnu11", "-w", "-I", include / "wherry", "-I", include,
               sources / "compiled_client.c",
               "-o", client, "-L", compat, "-lcudart"])
        programs.check("registered by hand", [client], 0, ["done"],
                       [NO_RUN.format("add(int)"), ZEROS.format("total and 1 more")])
        programs.check("without a device", [client, "no-device"], 0, ["done"],
                       [ORDINARY, ZEROS.format("total and 1 more")], CUDA_VISIBLE_DEVICES="")
        nvcc = find_nvcc()
        if nvcc is None:
            print("programs that nvcc compiles: not tried, "
                  "nvcc for CUDA 13 is not in $CUDA_HOME or /usr/local/cuda")
        else:
            check_nvcc(programs, nvcc, sources, folder)


main()
