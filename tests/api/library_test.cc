// Libraries, which belong to no context and are the same in all contexts; and the occupancy of
// kernels.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/files.h"
#include "support/modules.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test {
namespace {

constexpr std::size_t page = 4096;
const char* const module_path = WHERRY_GRID_MODULE;

const Session& session() {
  static const Session instance{"capacity=64M,workers=3;capacity=64M,workers=2"};
  return instance;
}

CUresult load_file(CUlibrary* library, const char* path) {
  session();
  return cuLibraryLoadFromFile(library, path, nullptr, nullptr, 0, nullptr, nullptr, 0);
}
CUresult load_data(CUlibrary* library, const void* image) {
  session();
  return cuLibraryLoadData(library, image, nullptr, nullptr, 0, nullptr, nullptr, 0);
}

CUlibrary load() {
  CUlibrary library = nullptr;
  WHERRY_TRY(load_file(&library, module_path));
  return library;
}

CUkernel kernel_of(CUlibrary library, const char* name) {
  CUkernel kernel = nullptr;
  WHERRY_TRY(cuLibraryGetKernel(&kernel, library, name));
  return kernel;
}
CUfunction as_function(CUkernel kernel) {
  return reinterpret_cast<CUfunction>(kernel);
}

// Makes the device's context current within the scope.
class On {
 public:
  explicit On(int device) { WHERRY_TRY(cuCtxPushCurrent(session().context(device))); }
  ~On() { cuCtxPopCurrent(nullptr); }
  On(const On&) = delete;
  On& operator=(const On&) = delete;
};

// Adds 1 to the first word of each page.
CUresult touch(CUfunction kernel, char* data, std::uint32_t pages, CUstream stream) {
  std::uint32_t mode = 1;
  void* params[17] = {&data, &pages, &mode};
  return run_kernel(kernel, params, stream, 2, 4);
}

}  // namespace

TEST_CASE("an invalid library is refused, each with its own code") {
  CUlibrary library = nullptr;
  CHECK(load_file(nullptr, module_path) == CUDA_ERROR_INVALID_VALUE);
  CHECK(load_file(&library, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(load_file(&library, "/nonexistent/library.so") == CUDA_ERROR_FILE_NOT_FOUND);
  CHECK(load_file(&library, "/proc/self/status") == CUDA_ERROR_INVALID_IMAGE);
  CHECK(load_data(&library, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(load_data(&library, "what") == CUDA_ERROR_INVALID_IMAGE);
  CHECK(load_data(&library, "//\n.version 7.0\n.target sm_75\n") == CUDA_ERROR_NO_BINARY_FOR_GPU);
  CHECK(cuLibraryLoadFromFile(&library, module_path, nullptr, nullptr, 1, nullptr, nullptr, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryLoadFromFile(&library, module_path, nullptr, nullptr, 0, nullptr, nullptr, 1) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(library == nullptr);
  CHECK(cuLibraryUnload(nullptr) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a kernel of a library runs in any context, on its device") {
  const CUlibrary library = load();
  const CUkernel kernel = kernel_of(library, "touch");
  CHECK(kernel == kernel_of(library, "touch"));
  const Witness witness;
  // Memory of its own for each launch: a late message about a fault of an earlier kernel could move
  // pages of common memory back to that kernel's device.
  const auto touch_fresh = [&](CUstream stream, int device) {
    INFO("device " << device);
    const Managed<char> memory{16 * page};
    std::memset(memory.data(), 0, memory.bytes());
    CHECK(touch(as_function(kernel), memory.data(), 16, stream) == CUDA_SUCCESS);
    for (std::size_t i = 0; i < 16; ++i)
      REQUIRE(witness.residents(memory.data() + i * page) == bit_of(device));
    for (std::size_t i = 0; i < 16; ++i)
      CHECK(*reinterpret_cast<std::uint32_t*>(memory.data() + i * page) == 1);
  };
  // The kernel runs on the stream's device, whichever context is current.
  for (int device : {0, 1, 0}) touch_fresh(session().stream(device), device);
  const On other(1);
  touch_fresh(nullptr, 1);

  CUkernel none = nullptr;
  CHECK(cuLibraryGetKernel(nullptr, library, "touch") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetKernel(&none, library, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetKernel(&none, nullptr, "touch") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLibraryGetKernel(&none, library, "managed") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuLibraryGetKernel(&none, library, "malloc") == CUDA_ERROR_NOT_FOUND);
  CHECK(none == nullptr);
}

TEST_CASE("a library has one module in each context, and a kernel one function") {
  const CUlibrary library = load();
  const CUkernel kernel = kernel_of(library, "touch");
  CUmodule modules[2] = {};
  CUfunction functions[2] = {};
  for (int device : {0, 1}) {
    const On current(device);
    CUmodule again = nullptr;
    CUfunction function = nullptr;
    const auto index = static_cast<std::size_t>(device);
    CHECK(cuLibraryGetModule(&modules[index], library) == CUDA_SUCCESS);
    CHECK(cuLibraryGetModule(&again, library) == CUDA_SUCCESS);
    CHECK(modules[index] == again);
    CHECK(cuModuleUnload(again) == CUDA_ERROR_NOT_PERMITTED);
    CHECK(cuKernelGetFunction(&functions[index], kernel) == CUDA_SUCCESS);
    CHECK(cuModuleGetFunction(&function, again, "touch") == CUDA_SUCCESS);
    CHECK(function == functions[index]);
    CHECK(cuFuncGetModule(&again, function) == CUDA_SUCCESS);
    CHECK(again == modules[index]);
    CUfunctionLoadingState state = CU_FUNCTION_LOADING_STATE_UNLOADED;
    CHECK(cuFuncIsLoaded(&state, function) == CUDA_SUCCESS);
    CHECK(state == CU_FUNCTION_LOADING_STATE_LOADED);
    CHECK(cuFuncIsLoaded(nullptr, function) == CUDA_ERROR_INVALID_VALUE);
    CHECK(cuFuncLoad(function) == CUDA_SUCCESS);
    CHECK(cuFuncLoad(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(modules[0] != modules[1]);
  CHECK(functions[0] != functions[1]);
  const Managed<char> memory{page};
  CHECK(touch(functions[1], memory.data(), 1, session().stream(1)) == CUDA_SUCCESS);
  CHECK(touch(functions[1], memory.data(), 1, session().stream(0)) == CUDA_ERROR_INVALID_HANDLE);

  // Destroying a context unloads its module only.
  CUcontext context = nullptr;
  CUfunction function = nullptr;
  WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 0));
  CHECK(cuKernelGetFunction(&function, kernel) == CUDA_SUCCESS);
  CHECK(touch(function, memory.data(), 1, nullptr) == CUDA_SUCCESS);
  WHERRY_TRY(cuCtxDestroy(context));
  CHECK(touch(function, memory.data(), 1, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(touch(functions[0], memory.data(), 1, session().stream(0)) == CUDA_SUCCESS);

  // Unloading the library unloads its modules in all contexts.
  CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
  CHECK(cuLibraryUnload(library) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(touch(functions[0], memory.data(), 1, session().stream(0)) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(touch(as_function(kernel), memory.data(), 1, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuModuleGetFunction(&function, modules[1], "touch") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuKernelGetFunction(&function, kernel) == CUDA_ERROR_INVALID_HANDLE);
  CUmodule module = nullptr;
  CHECK(cuLibraryGetModule(&module, library) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("libraries need no current context, except in functions that document it") {
  session();
  std::thread([] {
    CUlibrary library = nullptr;
    CHECK(load_file(&library, module_path) == CUDA_SUCCESS);
    CUkernel kernel = nullptr;
    CHECK(cuLibraryGetKernel(&kernel, library, "report") == CUDA_SUCCESS);
    CUdeviceptr address = 0;
    CHECK(cuLibraryGetManaged(&address, nullptr, library, "managed") == CUDA_SUCCESS);
    CHECK(cuLibraryGetGlobal(&address, nullptr, library, "managed") == CUDA_ERROR_INVALID_CONTEXT);
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    CHECK(cuLibraryGetModule(&module, library) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuKernelGetFunction(&function, kernel) == CUDA_ERROR_INVALID_CONTEXT);
    int blocks = 0;
    CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, as_function(kernel), 32, 0) ==
          CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuLibraryUnload(library) == CUDA_SUCCESS);
  }).join();
}

TEST_CASE("variables of a library are managed memory, the same for modules of the file") {
  const CUlibrary library = load();
  CUdeviceptr address = 0;
  std::size_t bytes = 0;
  CHECK(cuLibraryGetManaged(&address, &bytes, library, "managed") == CUDA_SUCCESS);
  CHECK(bytes == 16384);
  CUdeviceptr same = 0;
  CHECK(cuLibraryGetGlobal(&same, nullptr, library, "managed") == CUDA_SUCCESS);
  CHECK(same == address);
  const CUmodule module = load_module(module_path);
  CHECK(cuModuleGetGlobal(&same, nullptr, module, "managed") == CUDA_SUCCESS);
  CHECK(same == address);
  const Witness witness;
  char* const variable = reinterpret_cast<char*>(address);
  CHECK(touch(as_function(kernel_of(library, "touch")), variable, 4, session().stream(1)) ==
        CUDA_SUCCESS);
  CHECK(witness.residents(variable) == bit_of(1));
  CHECK(cuLibraryGetManaged(nullptr, nullptr, library, "managed") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetManaged(&same, &bytes, library, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetManaged(&same, &bytes, nullptr, "managed") == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLibraryGetManaged(&same, &bytes, library, "nothing") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuLibraryGetGlobal(&same, &bytes, library, "touch") == CUDA_ERROR_NOT_FOUND);
}

TEST_CASE("loading a library from memory twice gives two libraries") {
  const std::string image = contents_of(module_path);
  CUlibrary libraries[2] = {};
  CUdeviceptr addresses[2] = {};
  for (int i : {0, 1}) {
    CHECK(load_data(&libraries[i], image.data()) == CUDA_SUCCESS);
    CHECK(cuLibraryGetManaged(&addresses[i], nullptr, libraries[i], "managed") == CUDA_SUCCESS);
  }
  CHECK(addresses[0] != addresses[1]);
}

TEST_CASE("unified functions are called by the host as by kernels") {
  const CUlibrary library = load();
  void* function = nullptr;
  CHECK(cuLibraryGetUnifiedFunction(&function, library, "touch") == CUDA_SUCCESS);
  std::uint32_t words[2048] = {7};
  void* first = words;
  std::uint32_t pages = 1;
  std::uint32_t mode = 1;
  void* params[] = {&first, &pages, &mode};
  const wherryLaunchInfo info{0, 1, 1, {1, 1, 1}, {1, 1, 1}, 0};
  reinterpret_cast<wherryGridKernel>(function)(&info, params);
  CHECK(words[0] == 8);
  CHECK(cuLibraryGetUnifiedFunction(&function, library, "managed") == CUDA_ERROR_NOT_FOUND);
  CHECK(cuLibraryGetUnifiedFunction(nullptr, library, "touch") == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuLibraryGetUnifiedFunction(&function, nullptr, "touch") == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("attributes of a kernel") {
  const CUlibrary library = load();
  const CUkernel kernel = kernel_of(library, "report");
  const char* name = nullptr;
  CHECK(cuKernelGetName(&name, kernel) == CUDA_SUCCESS);
  CHECK(std::string(name) == "report");
  CHECK(cuKernelGetName(nullptr, kernel) == CUDA_ERROR_INVALID_VALUE);
  CUlibrary its_library = nullptr;
  CHECK(cuKernelGetLibrary(&its_library, kernel) == CUDA_SUCCESS);
  CHECK(its_library == library);
  int value = -1;
  CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, kernel, 1) ==
        CUDA_SUCCESS);
  CHECK(value == 1024);
  CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX, kernel, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, kernel, 2) ==
        CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuKernelGetAttribute(&value, CU_FUNC_ATTRIBUTE_NUM_REGS, nullptr, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1024, kernel, 0) ==
        CUDA_SUCCESS);
  CHECK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 8, kernel, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuKernelSetCacheConfig(kernel, CU_FUNC_CACHE_PREFER_L1, 0) == CUDA_SUCCESS);
  CHECK(cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(9), 0) ==
        CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("parameters in a buffer are at their declared offsets") {
  const CUkernel kernel = kernel_of(load(), "report");
  CUfunction function = nullptr;
  WHERRY_TRY(cuKernelGetFunction(&function, kernel));
  struct Packed {
    void* seen;
    signed char small;
    alignas(16) double values[20];
    int number;
  };
  const std::size_t offsets[] = {offsetof(Packed, seen), offsetof(Packed, small),
                                 offsetof(Packed, values), offsetof(Packed, number)};
  const std::size_t sizes[] = {8, 1, 160, 4};
  for (std::size_t i = 0; i < 4; ++i) {
    std::size_t offset = 77;
    std::size_t size = 77;
    CHECK(cuKernelGetParamInfo(kernel, i, &offset, &size) == CUDA_SUCCESS);
    CHECK(offset == offsets[i]);
    CHECK(size == sizes[i]);
    CHECK(cuFuncGetParamInfo(function, i, &offset, nullptr) == CUDA_SUCCESS);
    CHECK(offset == offsets[i]);
  }
  std::size_t offset = 77;
  CHECK(cuKernelGetParamInfo(kernel, 4, &offset, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuKernelGetParamInfo(kernel, 0, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuFuncGetParamInfo(nullptr, 0, &offset, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  // The parameters of a kernel without a declaration are unknown.
  CHECK(cuKernelGetParamInfo(kernel_of(load(), "touch"), 0, &offset, nullptr) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(offset == 77);
}

TEST_CASE("a worker runs one block at a time, so that many blocks fill the device") {
  const CUfunction kernel = as_function(kernel_of(load(), "touch"));
  int blocks = -1;
  const auto count = [&](int size, std::size_t shared, unsigned flags) {
    return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(&blocks, kernel, size, shared,
                                                                flags);
  };
  for (int size : {1, 32, 1024}) {
    CHECK(count(size, 100, CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE) == CUDA_SUCCESS);
    CHECK(blocks == 1);
  }
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, 1025, 0) == CUDA_SUCCESS);
  CHECK(blocks == 0);
  CHECK(count(0, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(count(-1, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(count(32, 0, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(nullptr, kernel, 32, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nullptr, 32, 0) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(blocks == 0);

  const auto never = [](int) -> std::size_t { std::abort(); };
  for (int device : {0, 1}) {
    const On current(device);
    int grid = 0;
    int block = 0;
    CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, never, 0, 0) == CUDA_SUCCESS);
    CHECK(block == 1024);
    CHECK(grid == (device == 0 ? 3 : 2));
    CHECK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, kernel, nullptr, 0, 100, 0) ==
          CUDA_SUCCESS);
    CHECK(block == 100);
    CHECK(cuOccupancyMaxPotentialBlockSize(&grid, &block, kernel, nullptr, 0, -1) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuOccupancyMaxPotentialBlockSizeWithFlags(&grid, &block, kernel, nullptr, 0, 0, 4) ==
          CUDA_ERROR_INVALID_VALUE);
    CHECK(cuOccupancyMaxPotentialBlockSize(nullptr, &block, kernel, nullptr, 0, 0) ==
          CUDA_ERROR_INVALID_VALUE);
    // Checks this: exactly that many threads of a kernel, which wait for each other, run at the
    // same time.
    struct Runs {
      std::atomic<int> now;
      std::atomic<int> most;
    };
    const Managed<Runs> memory{1};
    Runs* runs = memory.data();
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    session().launch(device, 64, [runs, grid, limit](std::size_t) {
      const int now = ++runs->now;
      int most = runs->most;
      while (most < now && !runs->most.compare_exchange_weak(most, now)) continue;
      while (runs->most < grid && std::chrono::steady_clock::now() < limit)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
      --runs->now;
    });
    CHECK(session().wait(device) == CUDA_SUCCESS);
    CHECK(runs->most == (device == 0 ? 3 : 2));
  }

  std::size_t bytes = 7;
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 64) == CUDA_SUCCESS);
  CHECK(bytes == 0);
  bytes = 7;
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 2, 64) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(&bytes, kernel, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuOccupancyAvailableDynamicSMemPerBlock(nullptr, kernel, 1, 64) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(bytes == 7);
}

TEST_CASE("destroying a context concurrently leaves none of its modules and functions") {
  const CUlibrary library = load();
  const CUkernel kernel = kernel_of(library, "touch");
  for (int round = 0; round < 100; ++round) {
    CUcontext context = nullptr;
    WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 0));
    WHERRY_TRY(cuCtxPopCurrent(nullptr));
    std::atomic<bool> begins = false;
    CUmodule module = nullptr;
    CUfunction function = nullptr;
    std::thread user([&] {
      cuCtxSetCurrent(context);
      begins = true;
      const CUresult first = cuLibraryGetModule(&module, library);
      const CUresult second = cuKernelGetFunction(&function, kernel);
      if ((first == CUDA_SUCCESS) != (module != nullptr)) std::abort();
      if ((second == CUDA_SUCCESS) != (function != nullptr)) std::abort();
    });
    while (!begins) std::this_thread::yield();
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    user.join();
    CUfunction found = nullptr;
    std::size_t bytes = 0;
    CHECK(cuModuleGetFunction(&found, module, "touch") == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuFuncGetParamInfo(function, 0, &bytes, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  }
}

TEST_CASE("a library survives its device's death and reset") {
  const CUlibrary library = load();
  const CUkernel kernel = kernel_of(library, "touch");
  CHECK(touch(as_function(kernel_of(library, "touch_nothing")), nullptr, 1, nullptr) ==
        CUDA_ERROR_ILLEGAL_ADDRESS);
  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  const Managed<char> memory{page};
  CHECK(touch(as_function(kernel), memory.data(), 1, nullptr) == CUDA_SUCCESS);
  CHECK(*reinterpret_cast<std::uint32_t*>(memory.data()) == 1);
}

}  // namespace wherry::test
