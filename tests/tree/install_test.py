#!/usr/bin/env python3
"""The files of `meson install` suffice for a C and a C++ program: headers, both libraries with the
interposers, wherry.pc; for a CUDA source; for `wherry run`; for Python; and for Fortran.
libwherry_io is installed, and can be preloaded.

Usage: install_test.py BUILD MESON...
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

PROGRAM = """
#include <{header}>
#include <stdio.h>
int main(void) {{
  int version = 0;
  if (cuDriverGetVersion(&version) != CUDA_SUCCESS || version < 12000) return 1;
  printf("version %d\\n", version);
  if (cuInit(0) != CUDA_SUCCESS) return 2;
  return 0;
}}
"""

CUDA_PROGRAM = """
#include <stdio.h>
__global__ void set(int* out) { *out = 7; }
int main() {
  int* out;
  cudaMallocManaged(&out, sizeof *out);
  set<<<1, 1>>>(out);
  if (cudaDeviceSynchronize() != cudaSuccess || *out != 7) return 1;
  printf("a kernel ran\\n");
}
"""


PYTHON_PROGRAM = """
import wherry
print(wherry.full(3, 2).sum(), wherry.__version__)
"""

FORTRAN_PROGRAM = """
program main
  use wherry
  print '(i0, a)', wherry_device_count(), ' device(s)'
end program
"""


def run(command, **options):
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    build, meson = sys.argv[1], sys.argv[2:]
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder) / "root"
        run([*meson, "install", "-C", build, "--no-rebuild", "--destdir", str(root)])
        package = next(root.rglob("wherry.pc"))
        libraries = package.parent.parent
        environment = os.environ | {
            "PKG_CONFIG_PATH": str(package.parent),
            "PKG_CONFIG_SYSROOT_DIR": str(root),
        }
        # Without it the libraries have to find each other.
        environment.pop("LD_LIBRARY_PATH", None)

        io_library = next(root.rglob("libwherry_io.so"))
        complaints = subprocess.run(["true"], env=environment | {"LD_PRELOAD": str(io_library)},
                                    capture_output=True).stderr
        if complaints:
            sys.exit(f"{io_library}: {complaints.decode()}")

        def pkg_config(*arguments):
            return run(["pkg-config", *arguments, "wherry"], env=environment).split()

        flags = pkg_config("--cflags")
        cuda_folder = pkg_config("--variable=cudaincludedir")[0]
        if not cuda_folder.startswith(str(root)):  # newer versions add the root themselves
            cuda_folder = str(root) + cuda_folder
        cuda = ["-I" + cuda_folder]
        shared = [*pkg_config("--libs"), f"-Wl,-rpath,{libraries}"]
        private = [word for word in pkg_config("--libs", "--static") if word != "-lwherry"]
        static = ["-Wl,-Bstatic", "-lwherry", "-Wl,-Bdynamic", *private]
        for compiler, suffix in (("cc", "c"), ("c++", "cc")):
            for header, extra in (("wherry/wherry.h", []), ("cuda.h", cuda),
                                  ("cuda_runtime_api.h", cuda)):
                for kind, link in (("shared", shared), ("static", static)):
                    source = pathlib.Path(folder) / f"program.{suffix}"
                    program = pathlib.Path(folder) / "program"
                    source.write_text(PROGRAM.format(header=header))
                    run([compiler, source, "-o", program, *flags, *extra, f"-L{libraries}", *link])
                    output = run([program], env=environment).strip()
                    print(f"{compiler}, <{header}>, {kind}: {output}")

        cuda_source = pathlib.Path(folder) / "program.cu"
        cuda_source.write_text(CUDA_PROGRAM)
        run([next(root.rglob("bin/wherry-nvcc")), "-O1", cuda_source, "-o", program],
            env=environment)
        print(f"wherry nvcc: {run([program], env=environment).strip()}")

        # A build with sanitizers has no such library.
        if list(root.rglob("libwherry_run.so")):
            code = "print(len(bytearray(4 << 20)))"
            done = subprocess.run([next(root.rglob("bin/wherry")), "run", "--", "/usr/bin/python3",
                                   "-c", code], env=environment, capture_output=True, text=True)
            print(f"wherry run: {done.stdout.strip()}")
            # Where it may not, it says why it leaves the program alone.
            if done.returncode != 0 or " in " not in done.stderr:
                sys.exit(f"wherry run: {done.stderr}")
            if importlib.util.find_spec("numpy"):
                python = environment | {
                    "PYTHONPATH": str(next(root.rglob("wherry/__init__.py")).parent.parent)}
                output = run([sys.executable, "-c", PYTHON_PROGRAM], env=python, cwd=folder)
                print(f"Python: {output.strip()}")
            if shutil.which("gfortran"):
                module = pkg_config("--variable=fortran")[0]
                if not module.startswith(str(root)):
                    module = str(root) + module
                fortran_source = pathlib.Path(folder) / "program.f90"
                fortran_source.write_text(FORTRAN_PROGRAM)
                run(["gfortran", "-J", folder, module, fortran_source, "-o", program,
                     f"-L{libraries}", *shared])
                print(f"gfortran: {run([program], env=environment).strip()}")

        # Like a program that does not know Wherry.
        for library in root.rglob("libcuda.so.1"):
            source.write_text(PROGRAM.format(header="cuda.h"))
            run(["c++", source, "-o", program, *flags, *cuda, f"-L{library.parent}", "-lcuda"])
            theirs = environment | {"LD_LIBRARY_PATH": str(library.parent)}
            print(f"-lcuda: {run([program], env=theirs).strip()}")


main()
