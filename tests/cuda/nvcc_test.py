#!/usr/bin/env python3
"""`wherry nvcc` as a compiler: its options, what it refuses, and build systems.

Usage: nvcc_test.py ROOT BUILD WHERRY
"""

import shutil

from common import Tests, run_all, some_of

CMAKE = """cmake_minimum_required(VERSION 3.18)
project(demo LANGUAGES CXX CUDA)
add_library(parts STATIC part.cu)
set_target_properties(parts PROPERTIES CUDA_SEPARABLE_COMPILATION ON)
add_executable(demo main.cu host.cpp)
target_compile_definitions(demo PRIVATE VALUE=7)
target_include_directories(demo PRIVATE ${CMAKE_CUDA_TOOLKIT_INCLUDE_DIRECTORIES})
target_link_libraries(demo PRIVATE parts)
"""
MAKE = """NVCC ?= nvcc
demo: main.o part.o host.o
\t$(NVCC) $^ -o $@ -lcudart
%.o: %.cu
\t$(NVCC) -arch=sm_80 -Xcompiler -Wall,-Wextra -O1 -DVALUE=7 -MD -c $< -o $@
host.o: host.cpp
\t$(NVCC) -c $< -o $@
-include main.d
"""
PART = """#include "part.cuh"
__device__ int shared_by_files = 3;
__device__ int add(int a, int b) { return a + b; }
__global__ void part(int* out, int value) {
  out[threadIdx.x] = add(value, threadIdx.x);
}
void launch_part(int* out, int value) { part<<<1, 4>>>(out, value); }
"""
MAIN = """#include <cstdio>
#include "part.cuh"
int devices();
int main() {
  int* out;
  cudaMallocManaged(&out, 16);
  launch_part(out, VALUE);
  part<<<1, 1>>>(out + 1, VALUE);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%d %d %d %d\\n", error, out[1], out[3], devices() > 0);
}
"""
HEADER = """__global__ void part(int* out, int value);
void launch_part(int* out, int value);
"""
HOST = """#include <cuda_runtime.h>
int devices() {
  int count = 0;
  cudaGetDeviceCount(&count);
  return count;
}
"""
# Two files, one of which uses the other's device function and variable.
OTHER = """#include <cstdio>
extern __device__ int shared_by_files;
__device__ int add(int a, int b);
__global__ void use(int* out) { *out = add(shared_by_files, 4); }
int main() {
  int* out;
  cudaMallocManaged(&out, 4);
  use<<<1, 1>>>(out);
  const cudaError_t error = cudaDeviceSynchronize();
  std::printf("%d %d\\n", error, *out);
}
"""

# What CUDA 12 has, and overloads.
OLD_API = """#include <cstdio>
__global__ void set(int* out) { *out = 7; }
int main() {
  cudaDeviceProp properties;
  cudaGetDeviceProperties(&properties, 0);
  int rate = 0;
  cudaDeviceGetAttribute(&rate, cudaDevAttrClockRate, 0);
  cudaMemPool_t pool;
  cudaDeviceGetDefaultMemPool(&pool, 0);
  int* out;
  int value = 0;
  cudaMallocAsync(&out, 4, pool, 0);
  set<<<1, 1>>>(out);
  const cudaError_t error = cudaMemcpy(&value, out, 4, cudaMemcpyDefault);
  std::printf("%d %d %d\\n", properties.clockRate == rate && rate > 0, error, value);
}
"""

# A line of a source, and what the message about it says.
REFUSED = [
    ("texture<float, 1> t;", "source.cu:1: error: texture"),
    ("__global__ void k() { asm(\"mov.u32 %0, 1;\"); }", "source.cu:1: error: inline PTX"),
    ("__global__ void a() {}\n__global__ void b() { a<<<1, 1>>>(); }",
     "source.cu:2: error: a kernel"),
    ("#include <cublas_v2.h>", "cuBLAS"),
    ("__global__ void k(int* p) {\n  int i = threadIdx.x;\n  __syncthreads();\n"
     "  p[i] = nothing;\n}",
     "source.cu:4:10: error: ‘nothing’"),
    ("void f() {\n  g<<<1,\n    1>>>();\n  h();\n}", "source.cu:4:3: error: ‘h’"),
]
REFUSED_OPTIONS = [("-ptx", "no PTX"), ("-lcublas", "GPU code"), ("--frobnicate", "does not know"),
                   ("missing.cu", "no such file")]


class Compiler(Tests):
    def write(self, **files):
        for name, text in files.items():
            (self.folder / name.replace("_dot_", ".")).write_text(text)

    def refusals(self):
        for text, message in REFUSED:
            self.write(source_dot_cu=text)
            done = self.nvcc("-c", "source.cu", expect=1)
            self.check(text, message in done.stderr, done.stderr)
        for option, message in REFUSED_OPTIONS:
            done = self.nvcc(option, "source.cu", expect=2)
            self.check(option, message in done.stderr and done.stderr.count("\n") == 1, done.stderr)

    def write_program(self):
        self.write(main_dot_cu=MAIN, part_dot_cu=PART, host_dot_cpp=HOST, part_dot_cuh=HEADER,
                   other_dot_cu=OTHER)

    def options(self):
        self.write_program()
        expected = "0 7 10 1\n"
        # All at once; with a shared library; with an archive; one file's device code in another.
        self.nvcc("-O1", "-std=c++14", "-D", "VALUE=7", "main.cu", "part.cu", "host.cpp", "-o",
                  "all")
        self.check("three files", self.run(["./all"]).stdout == expected)
        self.nvcc("-O1", "-shared", "part.cu", "host.cpp", "-o", "libparts.so")
        self.nvcc("-O1", "-DVALUE=7", "main.cu", "-L.", "-lparts", "-Xlinker", "-rpath,$ORIGIN",
                  "-o", "linked")
        self.check("a shared library", self.run(["./linked"]).stdout == expected)
        self.nvcc("-O1", "-rdc=true", "-lib", "part.cu", "-o", "libpart.a")
        self.nvcc("-O1", "-dc", "other.cu", "-o", "other.o")
        self.nvcc("other.o", "libpart.a", "-o", "other")
        said = self.run(["./other"]).stdout
        self.check("device code of another file", said == "0 7\n", said)
        clang = shutil.which("clang++") or shutil.which("clang++-14")
        if clang:
            self.nvcc("-O1", "-ccbin", clang, "-DVALUE=7", "main.cu", "part.cu", "host.cpp", "-o",
                      "by_clang")
            self.check("clang", self.run(["./by_clang"]).stdout == expected)
        # A C compiler links, as some Makefiles do.
        self.nvcc("-cuda", "part.cu")
        self.check("-cuda", "wherry_kernel" in (self.folder / "part.cu.cpp.ii").read_text())
        self.write(prop_dot_cu=OLD_API)
        self.nvcc("-O1", "-c", "prop.cu")
        library = self.build / "lib"
        self.run(["gcc", "prop.o", "-o", "by_gcc", f"-L{self.build}/tools", f"-L{library}",
                  "-lcudart", f"-Wl,-rpath,{library}"])
        said = self.run(["./by_gcc"]).stdout
        self.check("an object that gcc links, with CUDA 12's API", said == "1 0 7\n", said)
        dry = self.nvcc("--dryrun", "-O2", "part.cu", "-o", "never").stderr
        self.check("--dryrun", '"-O3"' in dry and not (self.folder / "never").exists(), dry)
        for options, optimizes in ((["-O0"], True), (["-O0", "-g"], False), (["-G"], False)):
            dry = self.nvcc("--dryrun", *options, "part.cu", "-o", "never").stderr
            self.check(f"{options}", ('"-O3"' in dry) == optimizes, dry)
        said = self.nvcc("-E", "-DVALUE=7", "main.cu").stdout
        self.check("-E", "part<<<1, 1>>>(out + 1, 7)" in said)

    def makefile(self):
        self.write_program()
        self.write(Makefile=MAKE)
        self.run(["make", f"NVCC={self.wherry} nvcc"])
        self.check("a Makefile", self.run(["./demo"]).stdout == "0 7 10 1\n")
        self.check("-MD", "part.cuh" in (self.folder / "main.d").read_text())

    def cmake(self):
        if not shutil.which("cmake"):
            return print("without cmake: it is not installed")
        self.write_program()
        self.write(CMakeLists_dot_txt=CMAKE)
        toolchain = self.build / "tools/wherry-cuda.cmake"
        self.run(["cmake", "-B", "by_cmake", f"-DCMAKE_TOOLCHAIN_FILE={toolchain}"])
        # Of a toolkit of CUDA that is installed, too, CMake takes nothing.
        found = "".join(path.read_text() for path in
                        (self.folder / "by_cmake/CMakeFiles").glob("*/CMakeCUDACompiler.cmake"))
        self.check("the toolkit is Wherry's",
                   f'CMAKE_CUDA_COMPILER_TOOLKIT_ROOT "{self.build}"' in found, found)
        self.run(["cmake", "--build", "by_cmake"])
        self.check("CMake", self.run(["by_cmake/demo"]).stdout == "0 7 10 1\n")


if __name__ == "__main__":
    run_all(Compiler, *some_of((Compiler.refusals, Compiler.options, Compiler.makefile,
                                Compiler.cmake), "tests", below_full=0.5))
