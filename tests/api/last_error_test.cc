// wherryGetLastErrorMessage: which call, argument and range, why, and what to do.
#include <sys/wait.h>
#include <unistd.h>

#include <wherry/cuda_runtime_api.h>
#include <wherry/explain.h>
#include <wherry/wherry.h>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <thread>
#include <vector>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/child.h"
#include "support/locations.h"
#include "support/session.h"

namespace wherry::test::locations::last_error_test {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

constexpr std::size_t page = 4096;
// No memory is there.
constexpr CUdeviceptr nowhere = 0x1000;

// Device 1 does not support concurrent access with the host.
const Session& session() {
  static const Session the_session("capacity=16M;capacity=16M,concurrent=0");
  return the_session;
}

std::string message() {
  return wherryGetLastErrorMessage();
}
CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}
std::string hex(CUdeviceptr address) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", address);
  return text;
}

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  REQUIRE(outcome.passed());
}

// The call must return the code, and the message must consist of the name, the code's name and the
// description, and contain these words.
#define CHECK_MESSAGE(name, code, call, ...)                              \
  do {                                                                    \
    CHECK((call) == (code));                                              \
    CHECK_THAT(message(), StartsWith(name ": " #code " ("));              \
    for (const std::string& word : std::vector<std::string>{__VA_ARGS__}) \
      CHECK_THAT(message(), ContainsSubstring(word));                     \
  } while (false)

// Memory of each kind, freed at the end of the case.
struct Memory {
  Memory() { session(); }
  Managed<char> managed{2 * page};
  CUdeviceptr first = address_of(managed.data());
};

}  // namespace

TEST_CASE("before the first failure the message is empty, and success does not change it") {
  require_passed(in_fresh_process([] {
    expect(message().empty(), message());
    const Session fresh("capacity=16M");
    expect(message().empty(), message());
    expect(cuMemFree(nowhere) == CUDA_ERROR_INVALID_VALUE, "cuMemFree");
    const std::string said = message();
    expect(said ==
               "cuMemFree: CUDA_ERROR_INVALID_VALUE (invalid argument): no memory of the library "
               "is at 0x1000; was it freed before?",
           said);
    const Managed<char> memory(page);
    WHERRY_TRY(cuMemAdvise(address_of(memory.data()), page, CU_MEM_ADVISE_SET_READ_MOSTLY, host));
    expect(message() == said, "a successful call has changed the message");
  }));
}

TEST_CASE("without cuInit, in a forked child and without a context the message says what to do") {
  require_passed(in_fresh_process([] {
    CUdeviceptr address = 0;
    expect(cuMemAllocManaged(&address, page, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_NOT_INITIALIZED,
           "allocated");
    expect(message().find("call cuInit(0) first") != std::string::npos, message());
    WHERRY_TRY(cuInit(0));
    expect(cuMemAllocManaged(&address, page, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_CONTEXT,
           "allocated");
    expect(message().find("call cuDevicePrimaryCtxRetain and cuCtxSetCurrent") != std::string::npos,
           message());
    const pid_t child = ::fork();
    if (child == 0) {
      const bool same = message().starts_with("cuMemAllocManaged: CUDA_ERROR_INVALID_CONTEXT");
      cuInit(0);
      ::_exit(same && message().find("a child of fork() cannot") != std::string::npos ? 0 : 1);
    }
    int status = 0;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child's messages are wrong");
  }));
}

TEST_CASE("each thread has the message of its own failure") {
  session();
  CHECK(cuMemFree(nowhere) == CUDA_ERROR_INVALID_VALUE);
  const std::string mine = message();
  std::string before;
  std::string after;
  std::thread other([&] {
    before = message();
    CHECK(cuInit(7) == CUDA_ERROR_INVALID_VALUE);
    after = message();
  });
  other.join();
  CHECK(before.empty());
  CHECK(after == "cuInit: CUDA_ERROR_INVALID_VALUE (invalid argument): Flags is 0x7; pass 0");
  CHECK(message() == mine);
}

TEST_CASE("a query whose answer is that work is under way is no failure") {
  const Managed<int> go(1);
  session().launch(0, 1, [at = go.data()](std::size_t) {
    while (*const_cast<volatile int*>(at) == 0) ::usleep(100);
  });
  CHECK(cuMemFree(nowhere) == CUDA_ERROR_INVALID_VALUE);
  const std::string said = message();
  CHECK(cuStreamQuery(session().stream(0)) == CUDA_ERROR_NOT_READY);
  CHECK(message() == said);
  go[0] = 1;
  CHECK(session().wait(0) == CUDA_SUCCESS);
}

TEST_CASE("allocating and freeing managed memory") {
  const Memory memory;
  CUdeviceptr address = 0;
  CHECK_MESSAGE("cuMemAllocManaged", CUDA_ERROR_INVALID_VALUE,
                cuMemAllocManaged(nullptr, page, CU_MEM_ATTACH_GLOBAL), "dptr is NULL");
  CHECK_MESSAGE("cuMemAllocManaged", CUDA_ERROR_INVALID_VALUE,
                cuMemAllocManaged(&address, 0, CU_MEM_ATTACH_GLOBAL), "bytesize is 0");
  CHECK_MESSAGE("cuMemAllocManaged", CUDA_ERROR_INVALID_VALUE, cuMemAllocManaged(&address, page, 9),
                "flags is 0x9", "CU_MEM_ATTACH_GLOBAL");
  CHECK_MESSAGE("cuMemAllocManaged", CUDA_ERROR_OUT_OF_MEMORY,
                cuMemAllocManaged(&address, std::size_t{1} << 60, CU_MEM_ATTACH_GLOBAL),
                "1152921504606846976 bytes", "WHERRY_ARENA");
  CHECK_MESSAGE("cuMemAlloc", CUDA_ERROR_OUT_OF_MEMORY, cuMemAlloc(&address, std::size_t{1} << 60),
                "device 0", "WHERRY_DEVICES (16777216 bytes now)");
  CHECK_MESSAGE(
      "cuMemFree", CUDA_ERROR_INVALID_VALUE, cuMemFree(memory.first + 64),
      hex(memory.first + 64) + " lies inside the allocation " + hex(memory.first) + "+8192",
      "pass the allocation's start");
  void* on_host = nullptr;
  WHERRY_TRY(cuMemHostAlloc(&on_host, page, 0));
  CHECK_MESSAGE("cuMemFree", CUDA_ERROR_INVALID_VALUE, cuMemFree(address_of(on_host)),
                "host memory (cuMemHostAlloc); use cuMemFreeHost");
  CHECK_MESSAGE("cuMemFreeHost", CUDA_ERROR_INVALID_VALUE, cuMemFreeHost(memory.managed.data()),
                "managed memory; use cuMemFree");
  WHERRY_TRY(cuMemFreeHost(on_host));
  CHECK_MESSAGE("cuMemGetAddressRange", CUDA_ERROR_NOT_FOUND,
                cuMemGetAddressRange(&address, nullptr, nowhere), "0x1000");
}

TEST_CASE("advice") {
  const Memory memory;
  const auto advise = [&](CUdeviceptr first, std::size_t count, CUmemLocation where) {
    return cuMemAdvise(first, count, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, where);
  };
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE, advise(memory.first, 3 * page, host),
                "the range " + hex(memory.first) + "+12288 ends 4096 bytes after its allocation " +
                    hex(memory.first) + "+8192",
                "stay inside one allocation");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE, advise(memory.first, 0, host), "0 bytes");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE,
                advise(memory.first, ~std::size_t{0}, host), "past the last address");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE, advise(nowhere, page, host),
                "no managed memory is at 0x1000", "cuMemAllocManaged");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE, advise(memory.first, page, device(2)),
                "device 2, which does not exist; pass 0 to 1");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE,
                advise(memory.first, page, {CU_MEM_LOCATION_TYPE_HOST_NUMA, 99}), "node 99",
                "WHERRY_HOST_NODES");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE,
                advise(memory.first, page, {static_cast<CUmemLocationType>(77), 0}), "type is 77");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_DEVICE, advise(memory.first, page, device(1)),
                "device 1", "concurrent=0");
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE,
                cuMemAdvise(memory.first, page, static_cast<CUmem_advise>(50), host),
                "advice is 50");
  CUdeviceptr on_device = 0;
  WHERRY_TRY(cuMemAlloc(&on_device, page));
  CHECK_MESSAGE("cuMemAdvise", CUDA_ERROR_INVALID_VALUE, advise(on_device, page, host),
                "device memory (cuMemAlloc), not managed memory");
  WHERRY_TRY(cuMemFree(on_device));
}

TEST_CASE("attributes of ranges") {
  const Memory memory;
  int value = 0;
  CHECK_MESSAGE(
      "cuMemRangeGetAttribute", CUDA_ERROR_INVALID_VALUE,
      cuMemRangeGetAttribute(&value, 2, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, memory.first, page),
      "dataSize is 2", "pass 4");
  CHECK_MESSAGE(
      "cuMemRangeGetAttribute", CUDA_ERROR_INVALID_VALUE,
      cuMemRangeGetAttribute(&value, 4, static_cast<CUmem_range_attribute>(99), memory.first, page),
      "attribute is 99");
  CHECK_MESSAGE(
      "cuMemRangeGetAttribute", CUDA_ERROR_INVALID_VALUE,
      cuMemRangeGetAttribute(&value, 4, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, nowhere, page),
      "0x1000");
  CHECK_MESSAGE("cuMemRangeGetAttributes", CUDA_ERROR_INVALID_VALUE,
                cuMemRangeGetAttributes(nullptr, nullptr, nullptr, 0, memory.first, page),
                "data is NULL");
}

TEST_CASE("prefetches") {
  const Memory memory;
  CUstream stream = session().stream(0);
  CHECK_MESSAGE("cuMemPrefetchAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemPrefetchAsync(memory.first + page, 2 * page, device(0), 0, stream),
                "ends 4096 bytes after its allocation");
  CHECK_MESSAGE("cuMemPrefetchAsync", CUDA_ERROR_INVALID_DEVICE,
                cuMemPrefetchAsync(memory.first, page, device(5), 0, stream), "device 5",
                "pass 0 to 1");
  CHECK_MESSAGE("cuMemPrefetchAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemPrefetchAsync(memory.first, page, device(0), 3, stream), "flags is 0x3");
  CHECK_MESSAGE("cuMemPrefetchAsync", CUDA_ERROR_INVALID_DEVICE,
                cuMemPrefetchAsync(memory.first, page, device(1), 0, stream), "concurrent=0");
  int other = 0;
  CHECK_MESSAGE(
      "cuMemPrefetchAsync", CUDA_ERROR_INVALID_HANDLE,
      cuMemPrefetchAsync(memory.first, page, device(0), 0, reinterpret_cast<CUstream>(&other)),
      hex(address_of(&other)) + " is no stream");
  CUdeviceptr firsts[] = {memory.first, nowhere};
  std::size_t sizes[] = {page, page};
  CUmemLocation where[] = {device(0)};
  std::size_t indices[] = {1};
  CHECK_MESSAGE("cuMemPrefetchBatchAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemPrefetchBatchAsync(firsts, sizes, 2, where, indices, 1, 0, stream),
                "prefetchLocIdxs[0] is 1");
  indices[0] = 0;
  CHECK_MESSAGE("cuMemPrefetchBatchAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemPrefetchBatchAsync(firsts, sizes, 2, where, indices, 1, 0, stream),
                "no managed memory is at 0x1000");
  CHECK_MESSAGE("cuMemDiscardBatchAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemDiscardBatchAsync(firsts, sizes, 2, 0, nullptr), "legacy default stream");
}

TEST_CASE("copies and fills") {
  const Memory memory;
  std::vector<char> ordinary(4 * page);
  CHECK_MESSAGE("cuMemcpy", CUDA_ERROR_INVALID_VALUE, cuMemcpy(memory.first, 0, page),
                "source is NULL");
  CHECK_MESSAGE("cuMemcpy", CUDA_ERROR_INVALID_VALUE,
                cuMemcpy(memory.first + page, address_of(ordinary.data()), 2 * page),
                "the destination " + hex(memory.first + page) +
                    "+8192 is longer than the rest of "
                    "its allocation " +
                    hex(memory.first) + "+8192");
  CHECK_MESSAGE(
      "cuMemcpyHtoD", CUDA_ERROR_INVALID_VALUE,
      cuMemcpyHtoD(address_of(ordinary.data()), ordinary.data() + page, page),
      "the destination " + hex(address_of(ordinary.data())) + " is in no live allocation");
  CUdeviceptr on_device = 0;
  WHERRY_TRY(cuMemAlloc(&on_device, page));
  CHECK_MESSAGE("cuMemcpyDtoHAsync", CUDA_ERROR_INVALID_VALUE,
                cuMemcpyDtoHAsync(reinterpret_cast<void*>(on_device), memory.first, page, nullptr),
                "must be memory of the host, and is device memory (cuMemAlloc)");
  WHERRY_TRY(cuMemFree(on_device));
  CHECK_MESSAGE("cuMemsetD32", CUDA_ERROR_INVALID_VALUE, cuMemsetD32(memory.first + 2, 1, 4),
                "multiples of 4");
  CUDA_MEMCPY2D rectangle{};
  rectangle.srcMemoryType = rectangle.dstMemoryType = CU_MEMORYTYPE_UNIFIED;
  rectangle.srcDevice = rectangle.dstDevice = memory.first;
  rectangle.srcPitch = 8;
  rectangle.dstPitch = 64;
  rectangle.WidthInBytes = 16;
  rectangle.Height = 2;
  CHECK_MESSAGE("cuMemcpy2D", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(&rectangle), "the pitch 8");
  CHECK_MESSAGE("cuMemcpy2D", CUDA_ERROR_INVALID_VALUE, cuMemcpy2D(nullptr), "pCopy is NULL");
}

TEST_CASE("attributes of pointers") {
  const Memory memory;
  unsigned value = 0;
  CHECK_MESSAGE("cuPointerGetAttribute", CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, nowhere),
                "no memory of the library is at 0x1000");
  CHECK_MESSAGE("cuPointerGetAttribute", CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttribute(&value, static_cast<CUpointer_attribute>(999), memory.first),
                "attribute is 999");
  // cuPointerGetAttributes succeeds although the attribute has no value, and keeps the message.
  const std::string said = message();
  CUpointer_attribute host_pointer = CU_POINTER_ATTRIBUTE_HOST_POINTER;
  void* answer = nullptr;
  void* data = &answer;
  CUdeviceptr on_device = 0;
  WHERRY_TRY(cuMemAlloc(&on_device, page));
  CHECK(cuPointerGetAttributes(1, &host_pointer, &data, on_device) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(on_device));
  CHECK_THAT(message(), StartsWith("cuPointerGetAttribute: CUDA_ERROR_INVALID_VALUE"));
  CHECK_MESSAGE("cuPointerGetAttributes", CUDA_ERROR_INVALID_VALUE,
                cuPointerGetAttributes(0, nullptr, nullptr, memory.first), "numAttributes is 0");
}

TEST_CASE("registering host memory") {
  const Memory memory;
  std::vector<char> ordinary(page);
  CHECK_MESSAGE("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE,
                cuMemHostRegister(memory.managed.data(), page, 0), hex(memory.first) + "+4096",
                "not ordinary memory");
  CHECK_MESSAGE("cuMemHostRegister", CUDA_ERROR_INVALID_VALUE,
                cuMemHostRegister(ordinary.data(), page, 0x100), "Flags is 0x100");
  CHECK_MESSAGE("cuMemHostUnregister", CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
                cuMemHostUnregister(ordinary.data()), hex(address_of(ordinary.data())));
  WHERRY_TRY(cuMemHostRegister(ordinary.data(), page, 0));
  CHECK_MESSAGE("cuMemHostRegister", CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                cuMemHostRegister(ordinary.data(), page, 0), "unregister it first");
  WHERRY_TRY(cuMemHostUnregister(ordinary.data()));
}

TEST_CASE("modules and launches") {
  session();
  CUmodule module = nullptr;
  CHECK_MESSAGE("cuModuleLoad", CUDA_ERROR_FILE_NOT_FOUND,
                cuModuleLoad(&module, "/nonexistent/module.so"),
                "/nonexistent/module.so cannot be opened: No such file or directory");
  CHECK_MESSAGE("cuModuleLoadData", CUDA_ERROR_NO_BINARY_FOR_GPU,
                cuModuleLoadData(&module, "//\n.version 8.0\n.target sm_90\n"), "wherry nvcc");
  CHECK_MESSAGE("cuModuleLoad", CUDA_ERROR_INVALID_VALUE, cuModuleLoad(nullptr, "x"),
                "module is NULL");
  int other = 0;
  CHECK_MESSAGE("cuLaunchKernel", CUDA_ERROR_INVALID_HANDLE,
                cuLaunchKernel(reinterpret_cast<CUfunction>(&other), 1, 1, 1, 1, 1, 1, 0, nullptr,
                               nullptr, nullptr),
                hex(address_of(&other)) + " is no function", "cuModuleGetFunction");
  CUfunction function = nullptr;
  CHECK_MESSAGE("cuModuleGetFunction", CUDA_ERROR_INVALID_HANDLE,
                cuModuleGetFunction(&function, reinterpret_cast<CUmodule>(&other), "axpy"),
                "is no module");
}

TEST_CASE("Wherry's own functions") {
  const Memory memory;
  wherryStats stats{};
  CHECK_MESSAGE("wherryGetStats", CUDA_ERROR_INVALID_VALUE, wherryGetStats(&stats),
                "field size is 0");
  wherryPageState state{};
  state.size = sizeof state;
  CHECK_MESSAGE("wherryGetPageState", CUDA_ERROR_INVALID_VALUE,
                wherryGetPageState(reinterpret_cast<const void*>(nowhere), &state), "0x1000");
  CHECK_MESSAGE("wherryPinPages", CUDA_ERROR_INVALID_VALUE, wherryPinPages(memory.first, 3 * page),
                "ends 4096 bytes after its allocation");
  CHECK_MESSAGE("wherryUnpinPages", CUDA_ERROR_INVALID_VALUE, wherryUnpinPages(nowhere, page),
                "no managed memory is at 0x1000");
  CHECK_MESSAGE("wherryFreePages", CUDA_ERROR_INVALID_VALUE,
                wherryFreePages(memory.first + 1, page), "no multiple of 4096");
  CHECK_MESSAGE("wherryMakePrivate", CUDA_ERROR_INVALID_VALUE, wherryMakePrivate(nowhere),
                "0x1000");
  CHECK_MESSAGE("wherryTouchPages", CUDA_ERROR_INVALID_VALUE,
                wherryTouchPages(memory.managed.data(), page, 0), "flags is 0x0");
  CHECK_MESSAGE("wherryTouchPages", CUDA_ERROR_INVALID_VALUE,
                wherryTouchPages(memory.managed.data(), 64 * page, WHERRY_TOUCH_READ),
                "is not inside one live allocation");
  CHECK_MESSAGE("wherryExplainPage", CUDA_ERROR_INVALID_VALUE, wherryExplainPage(0, nullptr),
                "explanation is NULL");
  CHECK_MESSAGE("wherryThreadAttach", CUDA_ERROR_NOT_SUPPORTED, wherryThreadAttach(0),
                "kind=coherent");
  CHECK_MESSAGE("wherryThreadDetach", CUDA_ERROR_INVALID_VALUE, wherryThreadDetach(),
                "not attached");
  CHECK_MESSAGE("wherryGetDeviceProcess", CUDA_ERROR_INVALID_DEVICE,
                wherryGetDeviceProcess(9, nullptr), "there is no device 9; pass 0 to 1");
  CHECK_MESSAGE("wherrySetPolicy", CUDA_ERROR_NOT_PERMITTED, wherrySetPolicy("uvm"),
                "before cuInit");
}

TEST_CASE("functions of the runtime API name themselves and their errors") {
  const Memory memory;
  CHECK(cudaMemAdvise(memory.managed.data(), 3 * page, cudaMemAdviseSetReadMostly,
                      {cudaMemLocationTypeHost, 0}) == cudaErrorInvalidValue);
  CHECK_THAT(message(), StartsWith("cudaMemAdvise: cudaErrorInvalidValue (invalid argument): the "
                                   "range ") &&
                            ContainsSubstring("ends 4096 bytes after its allocation"));
  CHECK(cudaFree(memory.managed.data() + 8) == cudaErrorInvalidValue);
  CHECK_THAT(message(), StartsWith("cudaFree: cudaErrorInvalidValue") &&
                            ContainsSubstring("pass the allocation's start"));
  CHECK(cudaMemcpy(memory.managed.data(), nullptr, 1, cudaMemcpyDefault) == cudaErrorInvalidValue);
  CHECK_THAT(message(), StartsWith("cudaMemcpy: cudaErrorInvalidValue") &&
                            ContainsSubstring("source is NULL"));
  CHECK(cudaMemcpy(memory.managed.data(), memory.managed.data(), 1,
                   static_cast<cudaMemcpyKind>(55)) == cudaErrorInvalidMemcpyDirection);
  CHECK_THAT(message(), StartsWith("cudaMemcpy: cudaErrorInvalidMemcpyDirection (invalid direction "
                                   "of a copy): kind is 55; pass cudaMemcpyDefault"));
  const auto no_kernel = reinterpret_cast<const void*>(&std::atoi);
  CHECK(cudaLaunchKernel(no_kernel, dim3(1), dim3(1), nullptr, 0, nullptr) ==
        cudaErrorInvalidDeviceFunction);
  CHECK_THAT(message(), StartsWith("cudaLaunchKernel: cudaErrorInvalidDeviceFunction") &&
                            ContainsSubstring("WHERRY_KERNEL_PARAMS(atoi, ...)"));
  cudaGetLastError();
}

TEST_CASE("the exception of the C++ interface has the message") {
  const Memory memory;
  const std::span<char> too_long(memory.managed.data(), 3 * page);
  try {
    wherry::advise(too_long, wherry::advice::set_read_mostly);
    FAIL("the advice was accepted");
  } catch (const wherry::error& failure) {
    CHECK(failure.code() == CUDA_ERROR_INVALID_VALUE);
    CHECK_THAT(failure.what(),
               StartsWith("cuMemAdvise: CUDA_ERROR_INVALID_VALUE (invalid argument): "
                          "the range ") &&
                   ContainsSubstring("stay inside one allocation"));
  }
  // Not a failure of a call, so it has no message.
  CHECK(std::string(wherry::error(CUDA_ERROR_OUT_OF_MEMORY, "mine").what()) ==
        "mine: CUDA_ERROR_OUT_OF_MEMORY (out of memory)");
}

}  // namespace wherry::test::locations::last_error_test
