// Results of the C functions for right and wrong arguments. Where a real driver's result was
// recorded, the test requires the same result.
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <array>
#include <cstring>
#include <set>
#include <string>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::results_test {

namespace {

constexpr CUdeviceptr untouched = 0xA5A5A5A5A5A5A5A5;
constexpr std::size_t KB = 1024;
constexpr std::size_t MB = 1024 * KB;

const Session& session() {
  static const Session the_session("capacity=64M;capacity=32M");
  return the_session;
}

void kernel(const void*, std::size_t, std::size_t) {}
void host_function(void*) {}

// Calls one function of each kind. Returns "call=CODE" for each call whose result is not `wanted`.
std::string answers_other_than(CUresult wanted) {
  std::string others;
  const auto call = [&](const char* name, CUresult result) {
    if (result != wanted) others += std::string(" ") + name + "=" + name_of(result);
  };
  CUdeviceptr pointer = 0;
  std::size_t size = 0;
  int number = 0;
  unsigned flags = 0;
  pid_t pid = 0;
  CUuuid uuid;
  char name[16];
  CUcontext context = nullptr;
  CUstream stream = nullptr;
  wherryStats stats{};
  stats.size = sizeof stats;
  wherryPageState page{};
  page.size = sizeof page;
  call("cuDeviceGet", cuDeviceGet(&number, 0));
  call("cuDeviceGetCount", cuDeviceGetCount(&number));
  call("cuDeviceGetName", cuDeviceGetName(name, sizeof name, 0));
  call("cuDeviceTotalMem", cuDeviceTotalMem(&size, 0));
  call("cuDeviceGetUuid", cuDeviceGetUuid(&uuid, 0));
  call("cuDeviceGetAttribute",
       cuDeviceGetAttribute(&number, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0));
  call("cuDevicePrimaryCtxRetain", cuDevicePrimaryCtxRetain(&context, 0));
  call("cuDevicePrimaryCtxRelease", cuDevicePrimaryCtxRelease(0));
  call("cuDevicePrimaryCtxReset", cuDevicePrimaryCtxReset(0));
  call("cuDevicePrimaryCtxGetState", cuDevicePrimaryCtxGetState(0, &flags, &number));
  call("cuCtxCreate", cuCtxCreate(&context, nullptr, 0, 0));
  call("cuCtxDestroy", cuCtxDestroy(context));
  call("cuCtxPushCurrent", cuCtxPushCurrent(context));
  call("cuCtxPopCurrent", cuCtxPopCurrent(&context));
  call("cuCtxSetCurrent", cuCtxSetCurrent(nullptr));
  call("cuCtxGetCurrent", cuCtxGetCurrent(&context));
  call("cuCtxGetDevice", cuCtxGetDevice(&number));
  call("cuCtxSynchronize", cuCtxSynchronize());
  call("cuMemAllocManaged", cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
  call("cuMemAlloc", cuMemAlloc(&pointer, 4096));
  call("cuArrayCreate", cuArrayCreate(nullptr, nullptr));
  call("cuArray3DCreate", cuArray3DCreate(nullptr, nullptr));
  call("cuMemFree", cuMemFree(0));
  call("cuMemGetInfo", cuMemGetInfo(&size, &size));
  call("cuMemGetAddressRange", cuMemGetAddressRange(&pointer, &size, 0x10000));
  call("cuMemAdvise", cuMemAdvise(0, 0, CU_MEM_ADVISE_SET_READ_MOSTLY, CUmemLocation{}));
  call("cuMemRangeGetAttribute",
       cuMemRangeGetAttribute(nullptr, 0, CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY, 0, 0));
  call("cuMemRangeGetAttributes", cuMemRangeGetAttributes(nullptr, nullptr, nullptr, 0, 0, 0));
  call("cuMemPrefetchAsync", cuMemPrefetchAsync(0, 0, CUmemLocation{}, 0, nullptr));
  call("cuMemPrefetchBatchAsync",
       cuMemPrefetchBatchAsync(nullptr, nullptr, 0, nullptr, nullptr, 0, 0, nullptr));
  call("cuMemDiscardBatchAsync", cuMemDiscardBatchAsync(nullptr, nullptr, 0, 0, nullptr));
  call("cuMemDiscardAndPrefetchBatchAsync",
       cuMemDiscardAndPrefetchBatchAsync(nullptr, nullptr, 0, nullptr, nullptr, 0, 0, nullptr));
  call("cuStreamCreate", cuStreamCreate(&stream, 0));
  call("cuStreamCreateWithPriority", cuStreamCreateWithPriority(&stream, 0, 0));
  call("cuStreamDestroy", cuStreamDestroy(stream));
  call("cuStreamQuery", cuStreamQuery(nullptr));
  call("cuStreamSynchronize", cuStreamSynchronize(nullptr));
  call("cuLaunchHostFunc", cuLaunchHostFunc(nullptr, host_function, nullptr));
  call("wherryLaunchKernel", wherryLaunchKernel(nullptr, kernel, nullptr, 0, 1));
  call("wherryGetStats", wherryGetStats(&stats));
  call("wherryGetPageState", wherryGetPageState(&pointer, &page));
  call("wherryPinPages", wherryPinPages(0, 0));
  call("wherryUnpinPages", wherryUnpinPages(0, 0));
  call("wherryGetDeviceProcess", wherryGetDeviceProcess(0, &pid));
  std::size_t evictions = 0;
  call("wherryGetEvictions", wherryGetEvictions(nullptr, &evictions, nullptr));
  call("wherryThreadAttach", wherryThreadAttach(0));
  call("wherryThreadAttachByCpu", wherryThreadAttachByCpu());
  call("wherryThreadDetach", wherryThreadDetach());
  call("wherryThreadDevice", wherryThreadDevice(&number, nullptr));
  return others;
}

}  // namespace

TEST_CASE("before cuInit only the functions for errors, their names and the version work",
          "[api]") {
  const Outcome outcome = in_fresh_process([] {
    const std::string others = answers_other_than(CUDA_ERROR_NOT_INITIALIZED);
    expect(others.empty(), others);
    int version = 0;
    expect(cuDriverGetVersion(&version) == CUDA_SUCCESS && version == 13000, "version");
    expect(cuDriverGetVersion(nullptr) == CUDA_ERROR_INVALID_VALUE,
           "a null pointer for the version is accepted");
    expect(cuInit(1) == CUDA_ERROR_INVALID_VALUE, "cuInit accepts flags");
    expect(!answers_other_than(CUDA_SUCCESS).empty(),
           "a cuInit with wrong flags initialized the library");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a malformed variable is an error of cuInit, which names the place, and can be corrected",
          "[api]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capcity=64M", 1);
    expect(cuInit(0) == CUDA_ERROR_INVALID_VALUE, "malformed");
    const std::string others = answers_other_than(CUDA_ERROR_NOT_INITIALIZED);
    expect(others.empty(), others);
    ::setenv("WHERRY_DEVICES", "capacity=64M", 1);
    expect(cuInit(0) == CUDA_SUCCESS, "corrected");
    expect(cuInit(0) == CUDA_SUCCESS, "again");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("WHERRY_DEVICES") &&
                              Catch::Matchers::ContainsSubstring("capcity"));
}

TEST_CASE("a forked child can call nothing, nor can a host function or a kernel", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    const Session fresh("capacity=64M");
    {
      Child child([] {
        const std::string others = answers_other_than(CUDA_ERROR_NOT_INITIALIZED);
        expect(others.empty(), others);
        expect(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED, "cuInit in a child");
      });
      const Outcome in_child = child.wait(20'000);
      expect(in_child.passed(), in_child.describe());
    }
    std::string others = "not called";
    WHERRY_TRY(cuLaunchHostFunc(
        fresh.stream(0),
        [](void* data) {
          *static_cast<std::string*>(data) = answers_other_than(CUDA_ERROR_NOT_PERMITTED);
        },
        &others));
    WHERRY_TRY(fresh.wait(0));
    expect(others.empty(), "in a host function: " + others);
    const Managed<CUresult> answers(2);
    fresh.run(0, [to = answers.data()] {
      CUdeviceptr pointer = 0;
      to[0] = cuInit(0);
      to[1] = cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL);
    });
    expect(answers[0] == CUDA_ERROR_NOT_INITIALIZED, "cuInit in a kernel: " + name_of(answers[0]));
    expect(answers[1] == CUDA_ERROR_NOT_INITIALIZED, "in a kernel: " + name_of(answers[1]));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("every error code has a name and a description, other numbers have none", "[api]") {
  const char* text = nullptr;
  CHECK(cuGetErrorName(CUDA_SUCCESS, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_SUCCESS");
  CHECK(cuGetErrorName(CUDA_ERROR_UNKNOWN, &text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_UNKNOWN");
  std::set<std::string> names;
  std::set<std::string> descriptions;
  for (int code = 0; code <= 1000; ++code) {
    const char* name = nullptr;
    const char* description = nullptr;
    const CUresult named = cuGetErrorName(static_cast<CUresult>(code), &name);
    CHECK(cuGetErrorString(static_cast<CUresult>(code), &description) == named);
    CHECK((name != nullptr) == (named == CUDA_SUCCESS));
    CHECK((description != nullptr) == (named == CUDA_SUCCESS));
    if (name == nullptr) continue;
    names.insert(name);
    descriptions.insert(description);
  }
  CHECK(names.size() == 101);
  CHECK(descriptions.size() == names.size());
  CHECK(cuGetErrorName(static_cast<CUresult>(-1), &text) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
  CHECK(cuGetErrorName(CUDA_SUCCESS, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGetErrorString(CUDA_SUCCESS, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("functions of a context need a current context", "[api]") {
  session();
  WHERRY_TRY(cuCtxSetCurrent(nullptr));
  CUdeviceptr pointer = untouched;
  std::size_t size = 0;
  CUstream stream = nullptr;
  CUdevice device = 0;
  CHECK(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemGetAddressRange(&pointer, &size, 0x10000) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuMemGetInfo(&size, &size) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamCreate(&stream, 0) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(wherryLaunchKernel(nullptr, kernel, nullptr, 0, 1) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuLaunchHostFunc(nullptr, host_function, nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxGetDevice(&device) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_INVALID_CONTEXT);

  SECTION("but freeing does not") {
    WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
    WHERRY_TRY(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
    WHERRY_TRY(cuCtxSetCurrent(nullptr));
    CHECK(cuMemFree(0) == CUDA_SUCCESS);
    CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  }
  WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
}

TEST_CASE("managed memory of any size can be allocated, and is refused like a driver does",
          "[api]") {
  session();
  for (const std::size_t size :
       {std::size_t{1}, std::size_t{511}, 4 * KB - 1, 4 * KB + 1, 64 * KB, 64 * KB + 1, MB,
        2 * MB - 1, 2 * MB, 2 * MB + 1, 16 * MB, std::size_t{100} * 1024 * MB}) {
    for (const unsigned flags : {CU_MEM_ATTACH_GLOBAL, CU_MEM_ATTACH_HOST}) {
      CUdeviceptr pointer = 0;
      REQUIRE(cuMemAllocManaged(&pointer, size, flags) == CUDA_SUCCESS);
      CUdeviceptr base = 0;
      std::size_t range = 0;
      CHECK(cuMemGetAddressRange(&base, &range, pointer + size - 1) == CUDA_SUCCESS);
      CHECK(base == pointer);
      CHECK(range == size);
      CHECK(cuMemGetAddressRange(&base, &range, pointer + size) == CUDA_ERROR_NOT_FOUND);
      CHECK(base == 0);
      CHECK(range == 0);
      CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
    }
  }

  const auto refused = [](std::size_t size, unsigned flags, CUresult wanted) {
    CUdeviceptr pointer = untouched;
    INFO("size " << size << ", flags " << flags);
    CHECK(cuMemAllocManaged(&pointer, size, flags) == wanted);
    CHECK(pointer == 0);
  };
  refused(0, CU_MEM_ATTACH_GLOBAL, CUDA_ERROR_INVALID_VALUE);
  refused(0, CU_MEM_ATTACH_HOST, CUDA_ERROR_INVALID_VALUE);
  refused(0, 99, CUDA_ERROR_INVALID_VALUE);
  for (const unsigned flags : {0u, 3u, 4u, 5u, 99u, 0x80000000u, 0xffffffffu}) {
    refused(64 * KB, flags, CUDA_ERROR_INVALID_VALUE);
  }
  refused(std::size_t{1} << 60, CU_MEM_ATTACH_GLOBAL, CUDA_ERROR_OUT_OF_MEMORY);
  refused(SIZE_MAX, CU_MEM_ATTACH_GLOBAL, CUDA_ERROR_OUT_OF_MEMORY);
  refused(SIZE_MAX - 4095, CU_MEM_ATTACH_GLOBAL, CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAllocManaged(nullptr, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged(nullptr, 0, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemAllocManaged(nullptr, 4096, 99) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("only the first address of a live allocation can be freed, once", "[api]") {
  session();
  CUdeviceptr pointer = 0;
  WHERRY_TRY(cuMemAllocManaged(&pointer, 64 * KB, CU_MEM_ATTACH_GLOBAL));
  for (const long offset : {1L, 512L, 4096L, 32768L, 65535L, 65536L, -1L, -4096L}) {
    INFO("offset " << offset);
    CHECK(cuMemFree(pointer + static_cast<CUdeviceptr>(offset)) == CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(cuMemFree(0x1000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(~CUdeviceptr{0}) == CUDA_ERROR_INVALID_VALUE);
  int on_the_stack = 0;
  CHECK(cuMemFree(reinterpret_cast<CUdeviceptr>(&on_the_stack)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(0) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_SUCCESS);
  CHECK(cuMemFree(pointer) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("freeing waits for work that may still use the memory", "[api]") {
  const Session& s = session();
  Managed<int> flag(1);
  for (int round = 0; round < 20; ++round) {
    Managed<int> data(16 * KB);
    s.launch(0, 1, [data = data.data(), flag = flag.data()](std::size_t) {
      for (int i = 0; i < 1000; ++i) data[i] = i;
      *flag += data[999] == 999 ? 1 : 0;
    });
    data.free();
    REQUIRE(flag[0] == round + 1);
  }
  CHECK(s.wait(0) == CUDA_SUCCESS);
}

TEST_CASE("the range of an address is returned in the requested parts", "[api]") {
  session();
  const Managed<char> memory(2 * MB + 64 * KB);
  const auto inside = reinterpret_cast<CUdeviceptr>(memory.data()) + 70000;
  CUdeviceptr base = untouched;
  std::size_t size = 0;
  CHECK(cuMemGetAddressRange(&base, nullptr, inside) == CUDA_SUCCESS);
  CHECK(base == reinterpret_cast<CUdeviceptr>(memory.data()));
  CHECK(cuMemGetAddressRange(nullptr, &size, inside) == CUDA_SUCCESS);
  CHECK(size == memory.size());
  for (const CUdeviceptr nowhere : {CUdeviceptr{0}, CUdeviceptr{0x1000}, ~CUdeviceptr{0},
                                    reinterpret_cast<CUdeviceptr>(&base)}) {
    base = untouched;
    size = 1;
    CHECK(cuMemGetAddressRange(&base, &size, nowhere) == CUDA_ERROR_NOT_FOUND);
    CHECK(base == 0);
    CHECK(size == 0);
    // A query without result pointers is no error.
    CHECK(cuMemGetAddressRange(nullptr, nullptr, nowhere) == CUDA_SUCCESS);
  }
}

TEST_CASE("devices are numbered from 0, and others do not exist", "[api]") {
  session();
  int count = 0;
  CHECK(cuDeviceGetCount(&count) == CUDA_SUCCESS);
  CHECK(count == 2);
  CHECK(cuDeviceGetCount(nullptr) == CUDA_ERROR_INVALID_VALUE);
  std::array<CUuuid, 2> uuids{};
  for (int ordinal = 0; ordinal < 2; ++ordinal) {
    CUdevice device = -1;
    CHECK(cuDeviceGet(&device, ordinal) == CUDA_SUCCESS);
    char name[64];
    CHECK(cuDeviceGetName(name, sizeof name, device) == CUDA_SUCCESS);
    CHECK(std::strlen(name) > 0);
    char shortened[5] = {'x', 'x', 'x', 'x', 'x'};
    CHECK(cuDeviceGetName(shortened, 4, device) == CUDA_SUCCESS);
    CHECK(std::string(shortened) == std::string(name, 3));
    CHECK(shortened[4] == 'x');
    std::size_t bytes = 0;
    CHECK(cuDeviceTotalMem(&bytes, device) == CUDA_SUCCESS);
    CHECK(bytes == (ordinal == 0 ? 64 * MB : 32 * MB));
    CHECK(cuDeviceGetUuid(&uuids[static_cast<std::size_t>(ordinal)], device) == CUDA_SUCCESS);
    pid_t pid = 0;
    CHECK(wherryGetDeviceProcess(device, &pid) == CUDA_SUCCESS);
    CHECK(pid > 0);
  }
  CHECK(std::memcmp(&uuids[0], &uuids[1], sizeof(CUuuid)) != 0);

  for (const CUdevice invalid : {-2, -1, 2, 99}) {
    CUdevice device = 0;
    char name[8];
    std::size_t bytes = 0;
    int value = 0;
    unsigned flags = 0;
    pid_t pid = 0;
    CUcontext context = nullptr;
    CHECK(cuDeviceGet(&device, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetName(name, sizeof name, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceTotalMem(&bytes, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetUuid(&uuids[0], invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, invalid) ==
          CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDevicePrimaryCtxRetain(&context, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDevicePrimaryCtxRelease(invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDevicePrimaryCtxReset(invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuDevicePrimaryCtxGetState(invalid, &flags, &value) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(cuCtxCreate(&context, nullptr, 0, invalid) == CUDA_ERROR_INVALID_DEVICE);
    CHECK(wherryGetDeviceProcess(invalid, &pid) == CUDA_ERROR_INVALID_DEVICE);
  }
  CHECK(cuDeviceGet(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetName(nullptr, 8, 0) == CUDA_ERROR_INVALID_VALUE);
  char name[8];
  CHECK(cuDeviceGetName(name, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceTotalMem(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetUuid(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDeviceGetAttribute(nullptr, CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryGetDeviceProcess(0, nullptr) == CUDA_ERROR_INVALID_VALUE);
  std::size_t evictions = 1;
  CHECK(wherryGetEvictions(nullptr, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryGetEvictions(nullptr, &evictions, nullptr) == CUDA_ERROR_INVALID_VALUE);
  std::uint64_t dropped = 1;
  wherryEviction event;
  CHECK(wherryGetEvictions(&event, &evictions, &dropped) == CUDA_SUCCESS);
  CHECK(evictions == 0);
  CHECK(dropped == 0);
}

TEST_CASE("attributes of unified memory are those of a device with a page table of its own",
          "[api]") {
  session();
  const auto value = [](CUdevice_attribute attribute) {
    int answer = -777;
    CHECK(cuDeviceGetAttribute(&answer, attribute, 1) == CUDA_SUCCESS);
    return answer;
  };
  CHECK(value(CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS) == 0);
  CHECK(value(CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES) == 0);
  CHECK(value(CU_DEVICE_ATTRIBUTE_DIRECT_MANAGED_MEM_ACCESS_FROM_HOST) == 1);
  CHECK(value(CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID) >= 0);
  CHECK(value(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) >= 1);
  int answer = -777;
  for (const int unknown : {-1, 0, static_cast<int>(CU_DEVICE_ATTRIBUTE_MAX), 9999}) {
    CHECK(cuDeviceGetAttribute(&answer, static_cast<CUdevice_attribute>(unknown), 0) ==
          CUDA_ERROR_INVALID_VALUE);
  }
  CHECK(answer == -777);
  for (int known = 1; known < CU_DEVICE_ATTRIBUTE_MAX; ++known) {
    CHECK(cuDeviceGetAttribute(&answer, static_cast<CUdevice_attribute>(known), 0) == CUDA_SUCCESS);
  }
}

TEST_CASE("used device memory is the number of bytes in the pool", "[api]") {
  const Session& s = session();
  std::size_t before = 0;
  std::size_t total = 0;
  WHERRY_TRY(cuMemGetInfo(&before, &total));
  CHECK(total == 64 * MB);
  {
    const Managed<char> memory(8 * MB);
    s.run(0, [data = memory.data()] { std::memset(data, 1, 8 * MB); });
    std::size_t during = 0;
    WHERRY_TRY(cuMemGetInfo(&during, &total));
    CHECK(before - during == 8 * MB);
  }
  std::size_t after = 0;
  WHERRY_TRY(cuMemGetInfo(&after, &total));
  CHECK(after == before);
  CHECK(cuMemGetInfo(nullptr, &total) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemGetInfo(&total, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("an invalid stream is an invalid handle", "[api]") {
  session();
  CUstream gone = nullptr;
  WHERRY_TRY(cuStreamCreate(&gone, CU_STREAM_DEFAULT));
  CHECK(cuStreamDestroy(gone) == CUDA_SUCCESS);
  int on_the_stack = 0;
  for (const CUstream wrong :
       {gone, reinterpret_cast<CUstream>(0x3), reinterpret_cast<CUstream>(&on_the_stack),
        reinterpret_cast<CUstream>(session().context(0))}) {
    CHECK(cuStreamQuery(wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuStreamSynchronize(wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuStreamDestroy(wrong) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuLaunchHostFunc(wrong, host_function, nullptr) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(wherryLaunchKernel(wrong, kernel, nullptr, 0, 1) == CUDA_ERROR_INVALID_HANDLE);
  }
  for (const CUstream standing : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CHECK(cuStreamDestroy(standing) == CUDA_ERROR_INVALID_HANDLE);
    CHECK(cuStreamQuery(standing) == CUDA_SUCCESS);
    CHECK(wherryLaunchKernel(standing, kernel, nullptr, 0, 8) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(standing) == CUDA_SUCCESS);
  }
  CHECK(cuStreamCreate(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamCreate(&gone, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamCreateWithPriority(&gone, 99, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamCreateWithPriority(&gone, CU_STREAM_NON_BLOCKING, -5) == CUDA_SUCCESS);
  CHECK(cuStreamDestroy(gone) == CUDA_SUCCESS);
}

TEST_CASE("a launch with invalid arguments is refused", "[api]") {
  const Session& s = session();
  char args[WHERRY_MAX_ARGS_SIZE + 1] = {};
  CHECK(wherryLaunchKernel(s.stream(0), nullptr, nullptr, 0, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryLaunchKernel(s.stream(0), kernel, nullptr, 1, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryLaunchKernel(s.stream(0), kernel, args, sizeof args, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryLaunchKernel(s.stream(0), kernel, args, WHERRY_MAX_ARGS_SIZE, 1) == CUDA_SUCCESS);
  CHECK(wherryLaunchKernel(s.stream(0), kernel, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(wherryLaunchKernel(s.stream(0), reinterpret_cast<wherryKernel>(0x1234), nullptr, 0, 1) ==
        CUDA_ERROR_NOT_FOUND);
  CHECK(cuLaunchHostFunc(s.stream(0), nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(s.wait(0) == CUDA_SUCCESS);
}

TEST_CASE("structs that carry their size are filled up to that size", "[api]") {
  session();
  const Managed<int> memory(1);
  memory[0] = 1;
  struct {
    wherryPageState info;
    std::uint64_t newer_field;
  } page;
  std::memset(&page, 0xff, sizeof page);
  page.info.size = sizeof page;
  CHECK(wherryGetPageState(memory.data(), &page.info) == CUDA_SUCCESS);
  CHECK(page.info.size == sizeof page);
  CHECK(page.info.resident == 1);
  CHECK(page.newer_field == 0);
  page.info.size = sizeof page.info - 1;
  CHECK(wherryGetPageState(memory.data(), &page.info) == CUDA_ERROR_INVALID_VALUE);
  page.info.size = sizeof page.info;
  CHECK(wherryGetPageState(&page, &page.info) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryGetPageState(memory.data(), nullptr) == CUDA_ERROR_INVALID_VALUE);

  wherryStats stats;
  std::memset(&stats, 0xff, sizeof stats);
  stats.size = offsetof(wherryStats, populated);
  CHECK(wherryGetStats(&stats) == CUDA_SUCCESS);
  CHECK(stats.faults_missing > 0);
  CHECK(stats.faults_missing != UINT64_MAX);
  CHECK(stats.populated == UINT64_MAX);  // beyond the caller's size
  // As in programs that were compiled with version 0.2.0.
  stats.size = offsetof(wherryStats, held);
  CHECK(wherryGetStats(&stats) == CUDA_SUCCESS);
  CHECK(stats.thrash_unpinned == 0);
  CHECK(stats.held == UINT64_MAX);
  stats.size = sizeof stats;
  CHECK(wherryGetStats(&stats) == CUDA_SUCCESS);
  CHECK(stats.held == 0);
  for (const std::uint64_t held : stats.processor_held) CHECK(held == 0);
  stats.size = sizeof(std::size_t);
  CHECK(wherryGetStats(&stats) == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryGetStats(nullptr) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace wherry::test::results_test
