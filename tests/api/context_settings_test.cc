// Settings of contexts and devices that a program sets and reads.
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <chrono>
#include <ctime>
#include <string>
#include <thread>

#include "support/catch.h"
#include "support/machine_load.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::context_settings_test {

using namespace std::chrono_literals;

namespace {

const Session& session() {
  static const Session the_session("capacity=64M;capacity=32M");
  return the_session;
}

}  // namespace

TEST_CASE("limits and preferences belong to one context", "[api]") {
  session();
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, CU_CTX_SCHED_SPIN, 0) == CUDA_SUCCESS);

  std::size_t before = 0;
  CHECK(cuCtxGetLimit(&before, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(before > 0);
  CHECK(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, before + 1024) == CUDA_SUCCESS);
  std::size_t after = 0;
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(after == before + 1024);
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_MALLOC_HEAP_SIZE) == CUDA_SUCCESS);
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_PRINTF_FIFO_SIZE) == CUDA_SUCCESS);
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH) == CUDA_ERROR_UNSUPPORTED_LIMIT);
  CHECK(cuCtxSetLimit(CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH, 1) == CUDA_ERROR_UNSUPPORTED_LIMIT);
  CHECK(cuCtxSetLimit(static_cast<CUlimit>(99), 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxGetLimit(&after, static_cast<CUlimit>(99)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE) == CUDA_ERROR_INVALID_VALUE);

  CUfunc_cache cache = CU_FUNC_CACHE_PREFER_L1;
  CHECK(cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS);
  CHECK(cache == CU_FUNC_CACHE_PREFER_NONE);
  CHECK(cuCtxSetCacheConfig(CU_FUNC_CACHE_PREFER_SHARED) == CUDA_SUCCESS);
  CHECK(cuCtxGetCacheConfig(&cache) == CUDA_SUCCESS);
  CHECK(cache == CU_FUNC_CACHE_PREFER_SHARED);
  CHECK(cuCtxSetCacheConfig(static_cast<CUfunc_cache>(4)) == CUDA_ERROR_INVALID_VALUE);

  unsigned flags = 0;
  CHECK(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SCHED_SPIN);
  CHECK(cuCtxSetFlags(CU_CTX_SCHED_YIELD) == CUDA_SUCCESS);
  CHECK(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SCHED_YIELD);
  CHECK(cuCtxSetFlags(3) == CUDA_ERROR_INVALID_VALUE);

  CUcontext other = nullptr;
  REQUIRE(cuCtxCreate(&other, nullptr, 0, 1) == CUDA_SUCCESS);
  CHECK(cuCtxGetLimit(&after, CU_LIMIT_STACK_SIZE) == CUDA_SUCCESS);
  CHECK(after == before);
  unsigned long long id = 0;
  unsigned long long other_id = 0;
  CHECK(cuCtxGetId(context, &id) == CUDA_SUCCESS);
  CHECK(cuCtxGetId(nullptr, &other_id) == CUDA_SUCCESS);
  CHECK(id != other_id);
  unsigned version = 0;
  CHECK(cuCtxGetApiVersion(context, &version) == CUDA_SUCCESS);
  CHECK(version == 3020);
  CHECK(cuCtxDestroy(other) == CUDA_SUCCESS);
  CHECK(cuCtxGetApiVersion(other, &version) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
  // Another thread has no current context.
  std::thread([] {
    std::size_t limit = 0;
    CHECK(cuCtxGetLimit(&limit, CU_LIMIT_STACK_SIZE) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuProfilerStart() == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_CASE("a context ends with its last user", "[api]") {
  session();
  CUcontext context = nullptr;
  CUcontext attached = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  CHECK(cuCtxAttach(&attached, 1) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxAttach(&attached, 0) == CUDA_SUCCESS);
  CHECK(attached == context);
  CHECK(cuCtxDetach(context) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cuProfilerStart() == CUDA_SUCCESS);
  CHECK(cuProfilerStop() == CUDA_SUCCESS);
  CHECK(cuCtxDetach(context) == CUDA_SUCCESS);
  CHECK(cuCtxDetach(context) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxGetCurrent(&attached) == CUDA_SUCCESS);
  CHECK(attached != context);
}

TEST_CASE("the primary context has the flags that were set for it before and while it is active",
          "[api]") {
  session();
  unsigned flags = 0;
  int active = 0;
  CHECK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_SPIN) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SCHED_SPIN);
  CUcontext primary = nullptr;
  REQUIRE(cuDevicePrimaryCtxRetain(&primary, 1) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_BLOCKING_SYNC) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SCHED_BLOCKING_SYNC);
  CHECK(active == 1);
  CHECK(cuDevicePrimaryCtxSetFlags(1, 0x1000) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDevicePrimaryCtxSetFlags(2, 0) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(cuCtxDetach(primary) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuDevicePrimaryCtxSetFlags(1, CU_CTX_SCHED_AUTO) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
}

TEST_CASE("a device is found by its bus id", "[api]") {
  session();
  std::string seen;
  for (CUdevice device : {0, 1}) {
    char id[16] = {};
    CHECK(cuDeviceGetPCIBusId(id, sizeof id, device) == CUDA_SUCCESS);
    CHECK(id != seen);
    seen = id;
    for (const int bytes : {2, 12}) {
      std::string cut(16, 'x');
      CHECK(cuDeviceGetPCIBusId(cut.data(), bytes, device) == CUDA_ERROR_INVALID_VALUE);
      const auto kept = static_cast<std::size_t>(bytes) - 1;
      CHECK(cut == seen.substr(0, kept) + '\0' + std::string(15 - kept, 'x'));
    }
    CHECK(cuDeviceGetPCIBusId(id, 0, device) == CUDA_ERROR_INVALID_VALUE);
    CHECK(id == seen);
    CUdevice found = -1;
    CHECK(cuDeviceGetByPCIBusId(&found, seen.c_str()) == CUDA_SUCCESS);
    CHECK(found == device);
    CHECK(cuDeviceGetByPCIBusId(&found, seen.substr(5).c_str()) == CUDA_SUCCESS);
    CHECK(found == device);
    CHECK(cuDeviceGetByPCIBusId(&found, seen.substr(0, seen.size() - 2).c_str()) == CUDA_SUCCESS);
    CHECK(found == device);
    int peer = -1;
    CHECK(cuDeviceCanAccessPeer(&peer, device, 1 - device) == CUDA_SUCCESS);
    CHECK(peer == 1);
    CHECK(cuDeviceCanAccessPeer(&peer, device, device) == CUDA_SUCCESS);
    CHECK(peer == 0);
  }
  CUdevice found = -1;
  for (const char* nowhere : {"", "0000:7f:00.0", "nonsense", ":::::"}) {
    CHECK(cuDeviceGetByPCIBusId(&found, nowhere) == CUDA_ERROR_INVALID_DEVICE);
  }
  int major = 0;
  int minor = -1;
  CHECK(cuDeviceComputeCapability(&major, &minor, 0) == CUDA_SUCCESS);
  CHECK(major >= 6);
  CHECK(minor >= 0);
  CHECK(cuDeviceComputeCapability(&major, &minor, 7) == CUDA_ERROR_INVALID_DEVICE);
}

TEST_CASE("streams report that they are not captured", "[api]") {
  session();
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_SUCCESS);
  CUstream stream = nullptr;
  REQUIRE(cuStreamCreate(&stream, 0) == CUDA_SUCCESS);
  for (const CUstream each : {stream, CUstream{}, CU_STREAM_PER_THREAD}) {
    auto status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    CHECK(cuStreamIsCapturing(each, &status) == CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    cuuint64_t id = 7;
    CHECK(cuStreamGetCaptureInfo(each, &status, &id, nullptr, nullptr, nullptr, nullptr) ==
          CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_NONE);
    CHECK(id == 7);
  }
  CHECK(cuStreamIsCapturing(stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  auto mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_GLOBAL);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
  CHECK(mode == CU_STREAM_CAPTURE_MODE_RELAXED);
  mode = static_cast<CUstreamCaptureMode>(3);
  CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  auto status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
  CHECK(cuStreamIsCapturing(stream, &status) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

TEST_CASE("the runtime API sets and returns the same settings", "[api]") {
  session();
  int version = 0;
  CHECK(cudaRuntimeGetVersion(&version) == cudaSuccess);
  CHECK(version == CUDART_VERSION);
  CHECK(cudaDriverGetVersion(&version) == cudaSuccess);
  CHECK(version >= CUDART_VERSION);
  CHECK(cudaRuntimeGetVersion(nullptr) == cudaErrorInvalidValue);

  CHECK(cudaSetDevice(1) == cudaSuccess);
  std::size_t limit = 0;
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096) == cudaSuccess);
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize) == cudaSuccess);
  CHECK(limit == 4096);
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitDevRuntimeSyncDepth) == cudaErrorUnsupportedLimit);
  CHECK(cudaDeviceSetLimit(static_cast<cudaLimit>(99), 1) == cudaErrorInvalidValue);
  CHECK(cudaDeviceGetLimit(&limit, static_cast<cudaLimit>(99)) == cudaErrorInvalidValue);
  cudaFuncCache cache = cudaFuncCachePreferNone;
  CHECK(cudaDeviceSetCacheConfig(cudaFuncCachePreferL1) == cudaSuccess);
  CHECK(cudaDeviceGetCacheConfig(&cache) == cudaSuccess);
  CHECK(cache == cudaFuncCachePreferL1);
  unsigned flags = 0;
  CHECK(cudaSetDeviceFlags(cudaDeviceScheduleYield) == cudaSuccess);
  CHECK(cudaGetDeviceFlags(&flags) == cudaSuccess);
  CHECK(flags == cudaDeviceScheduleYield);
  CHECK(cudaSetDeviceFlags(256) == cudaErrorInvalidValue);
  CHECK(cudaSetDeviceFlags(32) == cudaSuccess);
  CHECK(cudaInitDevice(0, cudaDeviceScheduleSpin, cudaInitDeviceFlagsAreValid) == cudaSuccess);
  CHECK(cudaInitDevice(0, 0, 2) == cudaErrorInvalidValue);
  CHECK(cudaInitDevice(9, 0, 0) == cudaErrorInvalidDevice);
  auto status = cudaStreamCaptureStatusActive;
  CHECK(cudaStreamIsCapturing(nullptr, &status) == cudaSuccess);
  CHECK(status == cudaStreamCaptureStatusNone);
  CHECK(cudaProfilerStart() == cudaSuccess);
  CHECK(cudaProfilerStop() == cudaSuccess);

  char id[16] = {};
  int device = -1;
  CHECK(cudaDeviceGetPCIBusId(id, sizeof id, 1) == cudaSuccess);
  CHECK(cudaDeviceGetByPCIBusId(&device, id) == cudaSuccess);
  CHECK(device == 1);
  int peer = -1;
  CHECK(cudaDeviceCanAccessPeer(&peer, 0, 1) == cudaSuccess);
  CHECK(peer == 1);
  CHECK(cudaDeviceReset() == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

namespace {

// The CPU time that this thread has used.
std::chrono::milliseconds cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::milliseconds(time.tv_sec * 1000 + time.tv_nsec / 1'000'000);
}

}  // namespace

TEST_CASE("a thread that waits for a long kernel sleeps, however its context waits", "[api]") {
  session();
  const unsigned flags =
      GENERATE(CU_CTX_SCHED_AUTO, CU_CTX_SCHED_YIELD, CU_CTX_SCHED_BLOCKING_SYNC);
  CAPTURE(flags);
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, flags, 0) == CUDA_SUCCESS);
  const auto nap = [](const void*, std::size_t, std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(400));
  };
  REQUIRE(wherryLaunchKernel(nullptr, nap, nullptr, 0, 1) == CUDA_SUCCESS);
  const auto before = cpu_time();
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(cpu_time() - before < 200ms);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

TEST_CASE("a context that spins waits for its kernels, too", "[api]") {
  session();
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, CU_CTX_SCHED_SPIN, 0) == CUDA_SUCCESS);
  const Managed<int> done(1);
  const auto nap = [](const void* args, std::size_t, std::size_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    **static_cast<int* const*>(args) = 1;
  };
  int* const word = done.data();
  REQUIRE(wherryLaunchKernel(nullptr, nap, &word, sizeof word, 1) == CUDA_SUCCESS);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(*word == 1);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

TEST_CASE("a thread that waits for an event spins with its context, unless the event is blocking",
          "[api]") {
  session();
  CUcontext context = nullptr;
  REQUIRE(cuCtxCreate(&context, nullptr, CU_CTX_SCHED_SPIN, 0) == CUDA_SUCCESS);
  const auto nap = [](const void*, std::size_t, std::size_t) {
    std::this_thread::sleep_for(100ms);
  };
  // The CPU time of a wait for the end of the nap.
  const auto wait = [&](unsigned event_flags) {
    CUevent event = nullptr;
    REQUIRE(cuEventCreate(&event, event_flags) == CUDA_SUCCESS);
    REQUIRE(wherryLaunchKernel(nullptr, nap, nullptr, 0, 1) == CUDA_SUCCESS);
    REQUIRE(cuEventRecord(event, nullptr) == CUDA_SUCCESS);
    const auto before = cpu_time();
    REQUIRE(cuEventSynchronize(event) == CUDA_SUCCESS);
    const auto used = cpu_time() - before;
    CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
    return used;
  };
  CHECK(wait(CU_EVENT_BLOCKING_SYNC) < 50ms);
  // The thread does not spin while another program needs its CPU.
  MachineLoad load;
  const bool spun = comes_true([&] {
    load.look();
    return wait(CU_EVENT_DEFAULT) > 50ms;
  });
  if (!spun && load.was_busy())
    WARN("skipped: other programs use the CPUs");
  else
    CHECK(spun);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

}  // namespace wherry::test::context_settings_test
