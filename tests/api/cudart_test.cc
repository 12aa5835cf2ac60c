// The runtime API: what its calls start implicitly, and how threads remember errors.
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <array>
#include <cstdlib>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::cudart_test {

namespace {

constexpr const char* devices = "capacity=16M;capacity=16M,concurrent=0";
constexpr cudaMemLocation host{cudaMemLocationTypeHost, 0};

void choose_devices() {
  ::setenv("WHERRY_DEVICES", devices, 1);
}

CUcontext primary_context(int device) {
  CUcontext context = nullptr;
  WHERRY_TRY(cuDevicePrimaryCtxRetain(&context, device));
  WHERRY_TRY(cuDevicePrimaryCtxRelease(device));
  return context;
}

bool is_active(int device) {
  unsigned flags = 0;
  int active = -1;
  WHERRY_TRY(cuDevicePrimaryCtxGetState(device, &flags, &active));
  return active == 1;
}

// The address is in a variable, because the compiler refuses a constant one. Without the attribute
// the sanitizer would report the access before Linux does.
__attribute__((no_sanitize("undefined"))) void touch_nothing(const void*, std::size_t,
                                                             std::size_t) {
  const volatile std::uintptr_t where = 0x123450;
  *reinterpret_cast<volatile int*>(where) = 1;
}

// An allocation of managed bytes.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    choose_devices();
    expect(cudaMallocManaged(&pointer_, bytes) == cudaSuccess, "cudaMallocManaged");
  }
  ~Memory() { cudaFree(pointer_); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  void* pointer() const { return pointer_; }
  std::size_t bytes() const { return bytes_; }
  int attribute(cudaMemRangeAttribute attribute) const {
    int value = -77;
    expect(
        cudaMemRangeGetAttribute(&value, sizeof value, attribute, pointer_, bytes_) == cudaSuccess,
        "cudaMemRangeGetAttribute");
    return value;
  }

 private:
  std::size_t bytes_;
  void* pointer_ = nullptr;
};

}  // namespace

TEST_CASE("the first call starts the library and gives the thread a context", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    choose_devices();
    expect(cudaPeekAtLastError() == cudaSuccess, "an error before any call");
    CUcontext context = nullptr;
    expect(cuCtxGetCurrent(&context) == CUDA_ERROR_NOT_INITIALIZED,
           "peeking at errors started the library");
    int count = 0;
    int device = -1;
    expect(cudaGetDeviceCount(&count) == cudaSuccess && count == 2, "count");
    expect(cudaGetDevice(&device) == cudaSuccess && device == 0, "device 0 at first");
    expect(current_context() == nullptr && !is_active(0), "a query made a context");
    expect(cudaFree(nullptr) == cudaSuccess, "freeing nothing");
    expect(current_context() == primary_context(0) && is_active(0),
           "the primary context is not current");
    expect(!is_active(1), "the primary context of device 1 is active, too");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("every call returns the error that keeps the library from starting", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capcity=64M", 1);
    void* pointer = nullptr;
    int count = 0;
    expect(cudaGetDeviceCount(&count) == cudaErrorInvalidValue, "count");
    expect(cudaMallocManaged(&pointer, 1) == cudaErrorInvalidValue, "memory");
    expect(cudaGetLastError() == cudaErrorInvalidValue, "remembered");
    choose_devices();
    expect(cudaMallocManaged(&pointer, 1) == cudaSuccess, "corrected");
    Child child([&] {
      expect(cudaFree(pointer) == cudaErrorInitializationError, "free in a child");
      expect(cudaSetDevice(0) == cudaErrorInitializationError, "device in a child");
    });
    const Outcome in_child = child.wait(20'000);
    expect(in_child.passed(), in_child.describe());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a kernel's failure is an error of the runtime API, too", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    choose_devices();
    const Memory memory(4096);
    WHERRY_TRY(wherryLaunchKernel(nullptr, touch_nothing, nullptr, 0, 1));
    expect(cudaDeviceSynchronize() == cudaErrorIllegalAddress, "while waiting");
    expect(cudaMemAdvise(memory.pointer(), 1, cudaMemAdviseSetReadMostly, host) ==
               cudaErrorIllegalAddress,
           "the error is not sticky");
    expect(cudaGetLastError() == cudaErrorIllegalAddress, "remembered");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    expect(cudaDeviceSynchronize() == cudaSuccess, "the error stays after the reset");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("each thread has its own device", "[api]") {
  choose_devices();
  int device = -1;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 1);
  CHECK(current_context() == primary_context(1));
  CHECK(cudaSetDevice(2) == cudaErrorInvalidDevice);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 1);
  std::thread([&] {
    CHECK(cudaGetDevice(&device) == cudaSuccess);
    CHECK(device == 0);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(current_context() == primary_context(0));
  }).join();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CHECK(current_context() == primary_context(0));
  CHECK(cudaGetDevice(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGetDeviceCount(nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("a context of the driver API is used as it is", "[api]") {
  choose_devices();
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
  CUcontext context = nullptr;
  WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 1));
  int device = -1;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 1);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(current_context() == context);
  WHERRY_TRY(cuCtxDestroy(context));
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(device == 0);
}

TEST_CASE("each thread keeps its last error until it reads it", "[api]") {
  choose_devices();
  cudaGetLastError();
  int on_the_stack = 0;
  CHECK(cudaFree(&on_the_stack) == cudaErrorInvalidValue);
  CHECK(cudaSetDevice(99) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  std::thread([] { CHECK(cudaPeekAtLastError() == cudaSuccess); }).join();
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("errors have names and descriptions, also those of the driver API", "[api]") {
  CHECK(std::string(cudaGetErrorName(cudaSuccess)) == "cudaSuccess");
  CHECK(std::string(cudaGetErrorString(cudaErrorInvalidValue)) == "invalid argument");
  CHECK(std::string(cudaGetErrorName(cudaErrorMemoryAllocation)) == "cudaErrorMemoryAllocation");
  CHECK(std::string(cudaGetErrorName(cudaErrorApiFailureBase)) == "cudaErrorApiFailureBase");
  const std::string unknown = "unrecognized error code";
  for (const int code : {10, 200'000}) {
    CHECK(cudaGetErrorName(static_cast<cudaError_t>(code)) == unknown);
    CHECK(cudaGetErrorString(static_cast<cudaError_t>(code)) == unknown);
  }
  // Every code of the driver API keeps its number, except two that the runtime API lacks.
  for (int code = 0; code < 1000; ++code) {
    const char* text = nullptr;
    if (cuGetErrorString(static_cast<CUresult>(code), &text) != CUDA_SUCCESS) continue;
    CAPTURE(code);
    const bool nameless =
        code == CUDA_ERROR_CONTEXT_ALREADY_CURRENT || code == CUDA_ERROR_KEY_ROTATION;
    CHECK((cudaGetErrorName(static_cast<cudaError_t>(code)) == unknown) == nameless);
    if (!nameless) CHECK(std::string(cudaGetErrorString(static_cast<cudaError_t>(code))) == text);
  }
}

TEST_CASE("managed memory is that of the driver API", "[api]") {
  choose_devices();
  void* pointer = &pointer;
  CHECK(cudaMallocManaged(nullptr, 1) == cudaErrorInvalidValue);
  CHECK(cudaMallocManaged(&pointer, 0) == cudaSuccess);
  CHECK(pointer == nullptr);
  pointer = &pointer;
  CHECK(cudaHostAlloc(&pointer, 0, cudaHostAllocDefault) == cudaSuccess);
  CHECK(pointer == nullptr);
  CHECK(cudaMallocManaged(&pointer, 1, cudaMemAttachSingle) == cudaErrorInvalidValue);
  CHECK(cudaMallocManaged(&pointer, std::size_t{1} << 57) == cudaErrorMemoryAllocation);
  REQUIRE(cudaMallocManaged(&pointer, 100, cudaMemAttachHost) == cudaSuccess);
  CHECK(page_state(pointer).resident == 0);
  *static_cast<int*>(pointer) = 5;
  CHECK(page_state(pointer).resident == 1);
  CHECK(cudaFree(static_cast<char*>(pointer) + 1) == cudaErrorInvalidValue);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
}

TEST_CASE("device attributes have the driver API's numbers", "[api]") {
  choose_devices();
  int value = -1;
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 0) == cudaSuccess);
  CHECK(value == 1);
  for (const auto clock : {cudaDevAttrClockRate, cudaDevAttrMemoryClockRate}) {
    CHECK(cudaDeviceGetAttribute(&value, clock, 0) == cudaSuccess);
    CHECK(value > 0);
  }
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrConcurrentManagedAccess, 1) == cudaSuccess);
  CHECK(value == 0);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrDirectManagedMemAccessFromHost, 0) ==
        cudaSuccess);
  CHECK(value == 1);
  CHECK(cudaDeviceGetAttribute(&value, cudaDevAttrMaxThreadsPerBlock, 2) == cudaErrorInvalidDevice);
  CHECK(cudaDeviceGetAttribute(nullptr, cudaDevAttrMaxThreadsPerBlock, 0) == cudaErrorInvalidValue);
  CHECK(cudaDeviceGetAttribute(&value, static_cast<cudaDeviceAttr>(0), 0) == cudaErrorInvalidValue);
}

TEST_CASE("advice through either name of the function is the driver API's", "[api]") {
  const Memory memory(8192);
  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes(), cudaMemAdviseSetReadMostly, host) ==
        cudaSuccess);
  CHECK(memory.attribute(cudaMemRangeAttributeReadMostly) == 1);
  CHECK(cudaMemAdvise_v2(memory.pointer(), 1, cudaMemAdviseUnsetReadMostly, host) == cudaSuccess);
  CHECK(memory.attribute(cudaMemRangeAttributeReadMostly) == 0);
  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes(), cudaMemAdviseSetPreferredLocation,
                      {cudaMemLocationTypeDevice, 0}) == cudaSuccess);
  CHECK(memory.attribute(cudaMemRangeAttributePreferredLocationType) == cudaMemLocationTypeDevice);
  CHECK(memory.attribute(cudaMemRangeAttributePreferredLocationId) == 0);
  CHECK(memory.attribute(cudaMemRangeAttributeLastPrefetchLocation) == cudaInvalidDeviceId);

  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes(), cudaMemAdviseSetAccessedBy,
                      {cudaMemLocationTypeDevice, 1}) == cudaErrorInvalidDevice);
  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes(), cudaMemAdviseSetAccessedBy,
                      {cudaMemLocationTypeDevice, 2}) == cudaErrorInvalidValue);
  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes() + 1, cudaMemAdviseSetReadMostly, host) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemAdvise(&memory, sizeof memory, cudaMemAdviseSetReadMostly, host) ==
        cudaErrorInvalidValue);

  // The device is ignored where the advice needs none.
  for (const int device : {-3, -2, -1, 2, 99}) {
    const cudaMemLocation nowhere{cudaMemLocationTypeDevice, device};
    CHECK(cudaMemAdvise(memory.pointer(), 1, cudaMemAdviseSetReadMostly, nowhere) == cudaSuccess);
    CHECK(cudaMemAdvise(memory.pointer(), 1, cudaMemAdviseUnsetReadMostly, nowhere) == cudaSuccess);
    for (const auto advice : {cudaMemAdviseSetPreferredLocation, cudaMemAdviseSetAccessedBy})
      CHECK(cudaMemAdvise(memory.pointer(), 1, advice, nowhere) == cudaErrorInvalidValue);
  }

  int preferred = -77;
  std::array<int, 2> accessed_by{};
  std::array<void*, 2> data{&preferred, accessed_by.data()};
  std::array<std::size_t, 2> sizes{sizeof preferred, sizeof accessed_by};
  std::array attributes{cudaMemRangeAttributePreferredLocation, cudaMemRangeAttributeAccessedBy};
  CHECK(cudaMemAdvise(memory.pointer(), memory.bytes(), cudaMemAdviseSetAccessedBy, host) ==
        cudaSuccess);
  CHECK(cudaMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 2, memory.pointer(),
                                  memory.bytes()) == cudaSuccess);
  CHECK(preferred == 0);
  CHECK(accessed_by == std::array<int, 2>{cudaCpuDeviceId, cudaInvalidDeviceId});
  CHECK(cudaMemRangeGetAttributes(data.data(), sizes.data(), attributes.data(), 0, memory.pointer(),
                                  memory.bytes()) == cudaErrorInvalidValue);
}

}  // namespace wherry::test::cudart_test
