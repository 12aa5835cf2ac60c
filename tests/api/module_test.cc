// Modules: what can be loaded, what is found in them, how their kernels are launched, and what
// happens to their variables.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "api/grid_module.h"
#include "support/catch.h"
#include "support/files.h"
#include "support/modules.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {
namespace {

constexpr std::size_t page = 4096;
constexpr std::uint32_t host_bit = 1;
const char* const module_path = WHERRY_GRID_MODULE;

const Session& session() {
  static const Session instance{"capacity=64M;capacity=64M"};
  return instance;
}

CUmodule load() {
  session();
  return load_module(module_path);
}

// A file with this text. The destructor removes it.
class TextFile {
 public:
  explicit TextFile(const std::string& text) {
    const int fd = ::mkstemp(path_);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    ::close(fd);
  }
  ~TextFile() { ::unlink(path_); }
  const char* path() const { return path_; }

 private:
  char path_[32] = "/tmp/wherry-module-XXXXXX";
};

}  // namespace

TEST_CASE("an invalid module is refused, each with its own code") {
  session();
  CUmodule module = nullptr;
  CHECK(cuModuleLoad(nullptr, module_path) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleLoad(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleLoad(&module, "/nonexistent/module.so") == CUDA_ERROR_FILE_NOT_FOUND);
  const TextFile text("no module at all\n");
  CHECK(cuModuleLoad(&module, text.path()) == CUDA_ERROR_INVALID_IMAGE);
  const TextFile empty("");
  CHECK(cuModuleLoad(&module, empty.path()) == CUDA_ERROR_INVALID_IMAGE);
  const std::string ptx = "//\n.version 7.0\n.target sm_75\n.address_size 64\n";
  const TextFile ptx_file(ptx);
  CHECK(cuModuleLoad(&module, ptx_file.path()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadData(&module, ptx.c_str()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr) ==
        CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadDataEx(&module, ptx.c_str(), 1, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleLoadData(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleLoadData(&module, "what") == CUDA_ERROR_INVALID_IMAGE);
  std::string cubin = contents_of(module_path).substr(0, 4096);
  cubin[18] = static_cast<char>(190);  // e_machine
  cubin[19] = 0;
  CHECK(cuModuleLoadData(&module, cubin.data()) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  const unsigned fat_binary[4] = {0xba55ed50, 0, 0, 0};
  CHECK(cuModuleLoadData(&module, fat_binary) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadFatBinary(&module, fat_binary) == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuModuleLoadFatBinary(&module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(module == nullptr);
  CUmoduleLoadingMode mode{};
  CHECK(cuModuleGetLoadingMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_MODULE_EAGER_LOADING);
  CHECK(cuModuleGetLoadingMode(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a module with thread-local variables cannot be loaded at its address in devices") {
  session();
  CUmodule module = nullptr;
  CHECK(cuModuleLoad(&module, WHERRY_TLS_MODULE) == CUDA_ERROR_SHARED_OBJECT_INIT_FAILED);
}

TEST_CASE("functions and variables are found by name, and only those of the module") {
  const CUmodule module = load();
  CUfunction function = nullptr;
  CHECK(cuModuleGetFunction(nullptr, module, "touch") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetFunction(&function, module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetFunction(&function, module, "") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&function, module, "managed") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&function, module, "malloc") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetFunction(&function, nullptr, "touch") == CUDA_ERROR_INVALID_HANDLE);
  function = function_of(module, "touch");
  CHECK(function == function_of(module, "touch"));
  CHECK(function != function_of(module, "report"));

  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "managed") == CUDA_SUCCESS);
  CHECK(bytes == 16384);
  CUdeviceptr base = 0;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, &size, address + 5000) == CUDA_SUCCESS);
  CHECK(base == address);
  CHECK(size == 16384);
  CHECK(cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "ordinary") == CUDA_SUCCESS);
  CHECK(bytes == 4096);
  CHECK(cuMemFree(address) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetGlobal(nullptr, &bytes, module, "constructed") == CUDA_SUCCESS);
  CHECK(bytes == sizeof(int));
  CHECK(cuModuleGetGlobal(nullptr, nullptr, module, "managed") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetGlobal(&address, &bytes, module, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "touch") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "environ") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuModuleGetGlobal(&address, &bytes, module, "no such thing") == CUDA_ERROR_NOT_FOUND);

  int value = -1;
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, function) ==
        CUDA_SUCCESS);
  CHECK(value == 1024);
  CHECK(cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, function) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024) ==
        CUDA_SUCCESS);
  CHECK(cuFuncSetAttribute(function, CU_FUNC_ATTRIBUTE_NUM_REGS, 8) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuFuncSetCacheConfig(function, CU_FUNC_CACHE_PREFER_L1) == CUDA_SUCCESS);
  CHECK(cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(9)) == CUDA_ERROR_INVALID_VALUE);
  const char* name = nullptr;
  CHECK(cuFuncGetName(&name, function) == CUDA_SUCCESS);
  CHECK(std::string(name) == "touch");
  CUmodule its_module = nullptr;
  CHECK(cuFuncGetModule(&its_module, function) == CUDA_SUCCESS);
  CHECK(its_module == module);

  CHECK(cuModuleUnload(module) == CUDA_SUCCESS);
  CHECK(cuModuleUnload(module) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuModuleGetFunction(&function, module, "touch") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuFuncGetName(&name, function) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a kernel gets the parameters that it declares, and its launch information") {
  const CUfunction report = function_of(load(), "report");
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  signed char small = -3;
  Large large{};
  large.values[19] = 1234;
  int number = 77;
  void* params[] = {&out, &small, &large, &number};
  WHERRY_TRY(cuLaunchKernel(report, 3, 4, 5, 6, 7, 2, 999, nullptr, params, nullptr));
  out = nullptr;  // the argument was copied at the launch
  number = 0;
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  constexpr std::size_t threads = 3 * 4 * 5 * 6 * 7 * 2;
  CHECK(seen[0].threads == threads);
  CHECK(seen[0].info.threads == threads);
  CHECK(seen[0].info.begin == 0);
  const unsigned grid[] = {3, 4, 5};
  const unsigned block[] = {6, 7, 2};
  CHECK(std::memcmp(seen[0].info.gridDim, grid, 12) == 0);
  CHECK(std::memcmp(seen[0].info.blockDim, block, 12) == 0);
  CHECK(seen[0].info.sharedMemBytes == 999);
  CHECK(seen[0].numbers[0] == -3);
  CHECK(seen[0].numbers[1] == 1234);
  CHECK(seen[0].numbers[2] == 77);

  // The same arguments, in a buffer.
  struct {
    Seen* seen;
    signed char small;
    alignas(16) Large large;
    int number;
  } packed{seen.data(), -4, large, 78};
  std::size_t size = sizeof packed;
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  WHERRY_TRY(cuLaunchKernel(report, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra));
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  CHECK(seen[0].numbers[0] == -4);
  CHECK(seen[0].numbers[1] == 1234);
  CHECK(seen[0].numbers[2] == 78);
  CHECK(cuLaunchKernel(report, 1, 1, 1, 1, 1, 1, 0, nullptr, params, extra) ==
        CUDA_ERROR_INVALID_VALUE);
  size = 8;
  CHECK(cuLaunchKernel(report, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLaunchKernel(report, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE(
    "parameters of a kernel without a declaration are found, and managed memory is not accessed") {
  const CUmodule module = load();
  const CUfunction touch = function_of(module, "touch");
  const Witness witness;
  const Managed<char> memory{64 * page};
  session().run(1, [data = memory.data()] { std::memset(data, 1, 64 * page); });
  REQUIRE(witness.residents(memory.data()) == bit_of(1));
  char* data = memory.data();
  std::uint32_t pages = 64;
  std::uint32_t mode = 1;
  // The library reads past the end of the array; here it finds a pointer to managed memory.
  void* params[] = {&data, &pages, &mode, data, data + page, reinterpret_cast<void*>(8)};
  const wherryStats before = read_stats();
  WHERRY_TRY(cuLaunchKernel(touch, 4, 1, 1, 8, 1, 1, 0, nullptr, params, nullptr));
  CHECK(read_stats().processor[0].migrated_in == before.processor[0].migrated_in);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
  for (std::size_t i = 0; i < 64; ++i) REQUIRE(witness.residents(data + i * page) == bit_of(0));
  for (std::size_t i = 0; i < 64; ++i)
    REQUIRE(*reinterpret_cast<std::uint32_t*>(data + i * page) == 0x01010102);
  void* extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &data, CU_LAUNCH_PARAM_END};
  CHECK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, extra) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("launches that are invalid for every device are refused") {
  const CUfunction touch = function_of(load(), "touch");
  char* data = nullptr;
  std::uint32_t zero = 0;
  void* params[] = {&data, &zero, &zero};
  const auto launch = [&](unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                          unsigned bz) {
    return cuLaunchKernel(touch, gx, gy, gz, bx, by, bz, 0, nullptr, params, nullptr);
  };
  CHECK(launch(0, 1, 1, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 1, 1, 1, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 65536, 1, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(0x80000000, 1, 1, 1, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 1, 1, 1025, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 1, 1, 64, 32, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 1, 1, 1, 1, 65) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(0x7fffffff, 65535, 65535, 1024, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(launch(1, 1, 1, 32, 32, 1) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, nullptr, params, nullptr) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLaunchKernel(touch, 1, 1, 1, 1, 1, 1, 0, session().stream(1), params, nullptr) ==
        CUDA_ERROR_INVALID_HANDLE);
  CUlaunchAttribute attribute{};
  CUlaunchConfig config{2, 1, 1, 2, 1, 1, 0, nullptr, &attribute, 1};
  CHECK(cuLaunchKernelEx(&config, touch, params, nullptr) == CUDA_SUCCESS);
  attribute.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
  CHECK(cuLaunchKernelEx(&config, touch, params, nullptr) == CUDA_ERROR_NOT_SUPPORTED);
  config.attrs = nullptr;
  CHECK(cuLaunchKernelEx(&config, touch, params, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLaunchKernelEx(nullptr, touch, params, nullptr) == CUDA_ERROR_INVALID_VALUE);
  WHERRY_TRY(cuStreamSynchronize(nullptr));
}

TEST_CASE(
    "host and devices share all variables of a module, with the values that constructors gave") {
  const CUmodule module = load();
  char* const ordinary = variable_of(module, "ordinary");
  char* const managed = variable_of(module, "managed");
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  int second = 0;
  void* params[17] = {&out, &second};
  std::strcpy(ordinary, "from the host");
  std::strcpy(managed, "here");
  WHERRY_TRY(run_kernel(function_of(module, "use_variables"), params));
  CHECK(std::string(seen[0].text) == "from the host");
  CHECK(seen[0].constructed == 42);
  CHECK(seen[0].third == nullptr);
  const Witness witness;
  CHECK(witness.residents(managed) == bit_of(0));
  CHECK(std::string(ordinary) == "Orom the host");
  CHECK(std::string(managed) == "Mere");
  CHECK(witness.residents(managed) == host_bit);

  // The same file is the same module on the other device.
  const int calls = seen[0].calls;
  WHERRY_TRY(cuCtxSetCurrent(session().context(1)));
  const CUmodule again = load();
  CHECK(again != module);
  CHECK(variable_of(again, "managed") == managed);
  CHECK(run_kernel(function_of(again, "use_variables"), params) == CUDA_SUCCESS);
  CHECK(seen[0].calls == calls + 1);
  WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
  CHECK(cuLaunchKernel(function_of(again, "use_variables"), 1, 1, 1, 1, 1, 1, 0, nullptr, params,
                       nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("loading a module from memory twice gives two modules") {
  session();
  const std::string image = contents_of(module_path);
  CUmodule first = nullptr;
  CUmodule second = nullptr;
  WHERRY_TRY(cuModuleLoadData(&first, image.data()));
  WHERRY_TRY(cuModuleLoadDataEx(&second, image.data(), 0, nullptr, nullptr));
  char* const one = variable_of(first, "managed");
  char* const other = variable_of(second, "managed");
  REQUIRE(one != other);
  CHECK(std::string(other) == "managed");
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  void* params[17] = {&out};
  WHERRY_TRY(run_kernel(function_of(first, "use_variables"), params));
  CHECK(seen[0].calls == 1);
  CHECK(std::string(one) == "Managed");
  CHECK(std::string(other) == "managed");
  WHERRY_TRY(run_kernel(function_of(second, "use_variables"), params));
  CHECK(seen[0].calls == 1);
}

TEST_CASE("kernels of modules throw and catch") {
  const CUmodule module = load();
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  void* params[17] = {&out};
  WHERRY_TRY(run_kernel(function_of(module, "catch_own"), params));
  CHECK(seen[0].text[0] == 'c');
}

TEST_CASE("a kernel that fails is the context's error, and a reset restores module and device") {
  const char* const kernels[] = {"throw_out", "touch_nothing"};
  const CUresult errors[] = {CUDA_ERROR_LAUNCH_FAILED, CUDA_ERROR_ILLEGAL_ADDRESS};
  for (int i = 0; i < 2; ++i) {
    CUmodule module = load();
    char* const ordinary = variable_of(module, "ordinary");
    std::strcpy(ordinary, "kept");
    void* none[17] = {};
    CHECK(run_kernel(function_of(module, kernels[i]), none) == errors[i]);
    CHECK(cuModuleLoad(&module, module_path) == errors[i]);
    CHECK(std::string(ordinary) == "kept");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    CUcontext context = nullptr;
    WHERRY_TRY(cuDevicePrimaryCtxRetain(&context, 0));
    WHERRY_TRY(cuCtxSetCurrent(context));
    module = load();
    const Managed<Seen> seen{1};
    Seen* out = seen.data();
    void* params[17] = {&out};
    WHERRY_TRY(run_kernel(function_of(module, "use_variables"), params));
    CHECK(std::string(seen[0].text) == "kept");
  }
}

TEST_CASE("a device that is killed comes back with the module") {
  CUmodule module = load();
  const pid_t process = device_process(0);
  ::kill(process, SIGKILL);
  CHECK(ends_within(process, 5000));
  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  module = load();
  const Managed<Seen> seen{1};
  Seen* out = seen.data();
  void* params[17] = {&out};
  WHERRY_TRY(run_kernel(function_of(module, "use_variables"), params));
  CHECK(seen[0].constructed == 42);
}

}  // namespace wherry::test
