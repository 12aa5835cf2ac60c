// The rewriting of CUDA sources: what becomes of launches, kernels and variables, and how the
// threads of a kernel run.
#include "nvcc/rewriter.h"

#include <string>

#include "nvcc/lexer.h"
#include "nvcc/options.h"
#include "support/catch.h"

namespace wherry::test::nvcc_rewriter_test {

using namespace wherry::tool;

namespace {

std::string rewrite(const std::string& source, bool relocatable = false) {
  const Rewritten result = rewrite_cuda(source, relocatable);
  REQUIRE(result.errors.empty());
  return result.text;
}

// How the threads of the source's only kernel run.
std::string mode_of(const std::string& source) {
  const std::string text = rewrite(source);
  const std::string before = "mode = ::wherry::kernels::";
  const std::size_t at = text.find(before);
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + before.size();
  return text.substr(from, text.find(' ', from) - from);
}

// What the library's header declares.
const std::string syncthreads =
    "__device__ inline void __syncthreads() { wherryBlockBarrier(0, nullptr); }\n";
const std::string syncwarp = "__device__ inline void __syncwarp() { wherryWarpBarrier(~0u); }\n";

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("strings, raw strings, characters and comments are no code") {
  const std::string source =
      "const char* a = \"k<<<1, 1>>>()\"; // k<<<1, 1>>>()\n"
      "const char* b = R\"x(k<<<1, 1>>>())\" )x\"; /* __global__ */ char c = '\"';\n";
  CHECK(rewrite(source) == source);
}

TEST_CASE("templates and shifts are no launches") {
  const std::string source =
      "std::vector<std::vector<std::vector<int>>> v; int i = 1 << 2 >> 1;\n"
      "auto& f = operator<<<int>;\n";
  CHECK(rewrite(source) == source);
}

TEST_CASE("a launch becomes a call behind its configuration") {
  const std::string text = rewrite("void f() { n::k<int, (3 > 2)><<<dim3(1, 2), b[0]>>>(x, y); }");
  CHECK(has(text, "(::wherry::kernels::configure(dim3(1, 2), b[0]) ? (void)0 : "));
  CHECK(has(text, "n::k<int, (3 > 2)>(x, y));"));
}

TEST_CASE("a launch over several lines keeps the number of lines that follow") {
  const std::string text =
      rewrite("# 1 \"a.cu\"\nvoid f() {\n  k<<<1,\n      2>>>(x);\n  g();\n}\n");
  // The call begins in line 2 again.
  const std::size_t call = text.find("\n# 2 \"a.cu\"\n  k");
  REQUIRE(call != std::string::npos);
  CHECK(has(text.substr(call), "k\n(x));\n  g();"));
}

TEST_CASE("a kernel without barriers is a loop; its guard is asked before") {
  CHECK(mode_of("__global__ void k(int* p) { p[threadIdx.x] = 1; }") == "loop");
  CHECK(mode_of("__global__ void k(int* p, int n) {\n"
                "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  if (i < n) p[i] = 1;\n}") == "guarded_loop");
  CHECK(mode_of("__global__ void k(int* p, int n) {\n"
                "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
                "  if (i >= n) return;\n  p[i] = 1;\n  p[i + n] = 2;\n}") == "guarded_loop");
}

TEST_CASE("a condition that reads memory, or has an else, is no guard") {
  CHECK(mode_of("__global__ void k(int* p) {\n"
                "  if (p[threadIdx.x] > 0) p[threadIdx.x] = 1;\n}") == "loop");
  CHECK(mode_of("__global__ void k(int* p, int n) { int i = threadIdx.x;\n"
                "  if (i < n) p[i] = 1; else p[i] = 2;\n}") == "loop");
  CHECK(mode_of("__global__ void k(int* p, int n) { int i = threadIdx.x;\n"
                "  if (i < n) p[i] = 1;\n  p[i + n] = 2;\n}") == "loop");
  CHECK(mode_of("__global__ void k(int* p, int n) { int i = atomicAdd(p, 1);\n"
                "  if (i < n) p[i] = 1;\n}") == "loop");
}

TEST_CASE("a loop goes around the threads if these use neighbouring elements in it") {
  const std::string begin =
      "__global__ void k(float* a, float* x, float* y, int n) {\n"
      "  int j = blockIdx.x * blockDim.x + threadIdx.x;\n  if (j < n)\n";
  CHECK(mode_of(begin + "    for (int i = 0; i < n; i++) y[j] += a[i * n + j] * x[i];\n}") ==
        "rows");
  CHECK(mode_of(begin + "    for (int i = 0; i < n; i++) y[j] += a[j * n + i] * x[i];\n}") ==
        "guarded_loop");
  CHECK(mode_of(begin + "    for (int i = 0; i < j; i++) y[j] += a[i * n + j];\n}") ==
        "guarded_loop");
  CHECK(mode_of(begin +
                "    for (int i = 0; i < n; i++) { if (y[j] > 9) break; y[j] += x[i]; }\n}") ==
        "guarded_loop");
}

TEST_CASE("a kernel with barriers runs in parts, or in fibers if the parts cannot be told") {
  const std::string kernel =
      "__global__ void k(int* p, int n) {\n  __shared__ int s[64];\n  int t = threadIdx.x;\n"
      "  s[t] = p[t];\n";
  CHECK(mode_of(syncthreads + kernel + "  __syncthreads();\n  p[t] = s[63 - t];\n}") == "phases");
  CHECK(mode_of(syncthreads + kernel +
                "  for (int i = 0; i < n; ++i) { s[t] += i; __syncthreads(); }\n}") == "phases");
  SECTION("a loop that ends when memory says so") {
    CHECK(mode_of(syncthreads + kernel + "  while (*p) { s[t] += 1; __syncthreads(); }\n}") ==
          "fibers");
  }
  SECTION("a thread that ends before a barrier") {
    CHECK(mode_of(syncthreads + kernel + "  if (t == 3) return;\n  __syncthreads();\n}") ==
          "fibers");
  }
  SECTION("a barrier in a function") {
    CHECK(mode_of(syncthreads + "__device__ void f() { __syncthreads(); }\n" + kernel +
                  "  f();\n}") == "fibers");
  }
  SECTION("a barrier behind an operator") {
    CHECK(mode_of(syncthreads + "struct F { __device__ int operator()() { __syncthreads(); } };\n" +
                  "__global__ void k(F f) { f(); }") == "fibers");
  }
  SECTION("a barrier of a warp") {
    CHECK(mode_of(syncwarp + kernel + "  __syncwarp();\n}") == "fibers");
  }
  SECTION("a function of another file") {
    CHECK(mode_of("__device__ int f(int);\n__global__ void k(int* p) { *p = f(1); }") == "fibers");
  }
}

TEST_CASE("functions that use threadIdx make their kernel keep the index") {
  CHECK(mode_of("__device__ int f() { return threadIdx.x; }\n"
                "__global__ void k(int* p) { *p = f(); }") == "indexed");
  CHECK(mode_of("__device__ int f() { return threadIdx.x; }\n"
                "__global__ void k(int* p) { *p = 1; }") == "loop");
  CHECK(mode_of("__global__ void k(int* p) { *p = [] { return threadIdx.x; }(); }") == "indexed");
}

TEST_CASE("what a kernel may call is found through classes, variables and templates") {
  const std::string functor =
      "struct F { __device__ int operator()() const { return threadIdx.x; } };\n";
  CHECK(mode_of(functor + "__global__ void k(F f, int* p) { *p = f(); }") == "indexed");
  CHECK(mode_of(functor + "template <class G> __global__ void k(G f, int* p) { *p = f(); }") ==
        "indexed");
  CHECK(mode_of(functor + "__global__ void k(int* p) { *p = 1; }") == "loop");
  const std::string pointer =
      "__device__ int f() { return threadIdx.x; }\n"
      "__device__ int (*const functions[])() = {f};\ntypedef int (*P)();\n"
      "__device__ P table[] = {f};\n";
  CHECK(mode_of(pointer + "__global__ void k(int* p) { *p = table[0](); }") == "indexed");
  const std::string lambda = "auto l = [] __device__(int* p) { *p = threadIdx.x; };\n";
  CHECK(mode_of(lambda + "template <class G> __global__ void k(G f, int* p) { f(p); }") ==
        "indexed");
}

TEST_CASE("a variable that a function may change is no constant of the kernel") {
  const std::string change = "__device__ void change(int& x) { ++x; }\n";
  const std::string text = rewrite(
      syncthreads + change +
      "__global__ void k(int* p) {\n  int i = threadIdx.x;\n  change(i);\n  __syncthreads();\n"
      "  p[threadIdx.x] = i;\n}");
  CHECK(has(text, "PerThread<int > wherry_all_i"));
}

TEST_CASE("variables of devices are managed, shared ones are of the worker") {
  const std::string managed = "__attribute__((section(\"wherry_managed\"), aligned(4096), used))";
  CHECK(has(rewrite("__device__ int a;"), "static " + managed + " int a;"));
  CHECK(has(rewrite("__device__ int a;", true), managed + " int a;"));
  CHECK_FALSE(has(rewrite("__constant__ const int a[] = {1};"), "wherry_managed"));
  CHECK(has(rewrite("__constant__ const int* a;"), managed));
  CHECK(has(rewrite("__device__ int f(int a) { return a; }"), "static "));
  CHECK(has(rewrite("__global__ void k() { __shared__ float s[2][3]; }"),
            "static thread_local float s[2][3];"));
  CHECK(has(rewrite("__global__ void k() { extern __shared__ float s[]; }"), "dynamic_shared()"));
}

TEST_CASE("what cannot work is refused with its place") {
  const auto refused = [](const std::string& source) {
    const Rewritten result = rewrite_cuda("# 7 \"x.cu\"\n" + source, false);
    REQUIRE(result.errors.size() == 1);
    return result.errors[0];
  };
  CHECK(has(refused("texture<float> t;"), "x.cu:7: error: texture"));
  CHECK(has(refused("\n__device__ void f() { asm volatile(\"bar.sync 0;\"); }"),
            "x.cu:8: error: inline"));
  CHECK(has(refused("__global__ void k() { k<<<1, 1>>>(); }"), "x.cu:7: error: a kernel cannot"));
  CHECK(has(refused("void f() { k<<<1, 1; }"), "x.cu:7: error: this <<<"));
  // In the host's code asm does not contain PTX, and is permitted.
  CHECK(rewrite_cuda("void f() { asm(\"nop\"); }", false).errors.empty());
}

TEST_CASE("options of nvcc are honoured, ignored or refused") {
  const NvccOptions options = parse_nvcc({"-O2",
                                          "-arch",
                                          "sm_90",
                                          "--gpu-code=sm_80",
                                          "-Xcompiler",
                                          "-Wall,-Wextra",
                                          "-I",
                                          "a,b",
                                          "--define-macro=X=1",
                                          "-std",
                                          "c++14",
                                          "k.cu",
                                          "o.o",
                                          "-lcudart",
                                          "-lm",
                                          "-o",
                                          "out",
                                          "-rdc",
                                          "true",
                                          "--threads=4"});
  CHECK(options.compiling == std::vector<std::string>{"-O3"});
  CHECK(options.common == std::vector<std::string>{"-Wall", "-Wextra"});
  CHECK(options.preprocessing == std::vector<std::string>{"-I", "a", "-I", "b", "-D", "X=1"});
  CHECK(options.linking == std::vector<std::string>{"o.o", "-lm"});
  CHECK(options.standard == "gnu++17");
  CHECK(options.relocatable);
  CHECK(options.output == "out");
  REQUIRE(options.inputs.size() == 2);
  CHECK(options.inputs[0].kind == NvccInput::Kind::cuda);
  CHECK_THROWS_WITH(parse_nvcc({"-cubin", "k.cu"}),
                    Catch::Matchers::ContainsSubstring("no cubins"));
  CHECK_THROWS_WITH(parse_nvcc({"-o"}), Catch::Matchers::ContainsSubstring("needs a value"));
}

}  // namespace wherry::test::nvcc_rewriter_test
