// Streams and events through the runtime API.
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "support/busy.h"
#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::cudart_stream_test {

namespace {

void start() {
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=4;capacity=64M,workers=4", 1);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

cudaStream_t create_stream() {
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  return stream;
}

}  // namespace

TEST_CASE("the runtime API's streams are those of the driver API", "[api]") {
  start();
  int least = 99;
  int greatest = 99;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  CHECK(least == 0);
  CHECK(greatest < least);

  cudaStream_t plain = nullptr;
  cudaStream_t urgent = nullptr;
  REQUIRE(cudaStreamCreate(&plain) == cudaSuccess);
  REQUIRE(cudaStreamCreateWithPriority(&urgent, cudaStreamNonBlocking, -99) == cudaSuccess);
  unsigned flags = 99;
  int number = 99;
  unsigned long long id = 0;
  unsigned long long other = 0;
  CHECK(cudaStreamGetFlags(plain, &flags) == cudaSuccess);
  CHECK(flags == cudaStreamDefault);
  CHECK(cudaStreamGetFlags(urgent, &flags) == cudaSuccess);
  CHECK(flags == cudaStreamNonBlocking);
  CHECK(cudaStreamGetPriority(plain, &number) == cudaSuccess);
  CHECK(number == 0);
  CHECK(cudaStreamGetPriority(urgent, &number) == cudaSuccess);
  CHECK(number == greatest);
  CHECK(cudaStreamGetDevice(urgent, &number) == cudaSuccess);
  CHECK(number == 0);
  CHECK(cudaStreamGetId(plain, &id) == cudaSuccess);
  CHECK(cuStreamGetId(plain, &other) == CUDA_SUCCESS);
  CHECK(id == other);
  CHECK(cudaStreamGetId(cudaStreamLegacy, &id) == cudaSuccess);
  CHECK(cudaStreamGetId(nullptr, &other) == cudaSuccess);
  CHECK(id == other);
  CHECK(cudaStreamGetId(cudaStreamPerThread, &other) == cudaSuccess);
  CHECK(id != other);

  CHECK(cudaStreamDestroy(plain) == cudaSuccess);
  CHECK(cudaStreamDestroy(urgent) == cudaSuccess);
  CHECK(cudaStreamDestroy(urgent) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamCreate(nullptr) == cudaErrorInvalidValue);
  CHECK(cudaStreamCreateWithFlags(&plain, 99) == cudaErrorInvalidValue);
}

TEST_CASE("a stream of the runtime API waits for an event of another device", "[api]") {
  start();
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  const cudaStream_t first = create_stream();
  Busy before(first);
  CHECK(cudaEventRecordWithFlags(event, first) == cudaSuccess);
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const cudaStream_t second = create_stream();
  REQUIRE(cudaStreamWaitEvent(second, event) == cudaSuccess);
  CHECK(cudaStreamQuery(second) == cudaErrorNotReady);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(cudaGetLastError() == cudaErrorNotReady);
  before.leave();
  CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK(cudaEventDestroy(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event) == cudaErrorInvalidResourceHandle);
  CHECK(cudaStreamDestroy(first) == cudaSuccess);
  CHECK(cudaStreamDestroy(second) == cudaSuccess);
}

TEST_CASE("events of the runtime API return the time between them", "[api]") {
  start();
  cudaEvent_t begin = nullptr;
  cudaEvent_t end = nullptr;
  REQUIRE(cudaEventCreate(&begin) == cudaSuccess);
  REQUIRE(cudaEventCreate(&end) == cudaSuccess);
  float time = -1;
  CHECK(cudaEventElapsedTime(&time, begin, end) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(begin) == cudaSuccess);
  CHECK(cudaLaunchHostFunc(
            nullptr, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(10)); },
            nullptr) == cudaSuccess);
  CHECK(cudaEventRecord(end, nullptr) == cudaSuccess);
  CHECK(cudaEventSynchronize(end) == cudaSuccess);
  REQUIRE(cudaEventElapsedTime(&time, begin, end) == cudaSuccess);
  CHECK(time >= 10.0f);
  CHECK(cudaEventDestroy(begin) == cudaSuccess);
  CHECK(cudaEventDestroy(end) == cudaSuccess);
}

TEST_CASE("a callback of the runtime API gets the runtime API's error", "[api]") {
  start();
  struct Told {
    std::atomic<cudaStream_t> stream = cudaStreamPerThread;
    std::atomic<cudaError_t> status = cudaErrorUnknown;
    std::atomic<cudaError_t> call = cudaSuccess;
  };
  Told told;
  const cudaStream_t stream = create_stream();
  REQUIRE(cudaStreamAddCallback(
              stream,
              [](cudaStream_t its, cudaError_t status, void* data) {
                auto& to = *static_cast<Told*>(data);
                to.stream = its;
                to.status = status;
                to.call = cudaStreamQuery(its);
              },
              &told, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(told.stream == stream);
  CHECK(told.status == cudaSuccess);
  CHECK(told.call == cudaErrorNotPermitted);
  CHECK(cudaStreamAddCallback(stream, nullptr, nullptr, 0) == cudaErrorInvalidValue);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("memory is attached through the runtime API, to a single stream by default", "[api]") {
  start();
  const cudaStream_t stream = create_stream();
  void* memory = nullptr;
  REQUIRE(cudaMallocManaged(&memory, 4096) == cudaSuccess);
  CHECK(cudaStreamAttachMemAsync(stream, memory) == cudaSuccess);
  CHECK(cudaStreamAttachMemAsync(nullptr, memory) ==
        cudaErrorInvalidValue);  // cudaMemAttachSingle, the default, needs a stream
  CHECK(cudaStreamAttachMemAsync(nullptr, memory, 4096, cudaMemAttachHost) == cudaSuccess);
  CHECK(cudaStreamAttachMemAsync(stream, memory, 100) == cudaErrorInvalidValue);
  CHECK(cudaStreamAttachMemAsync(stream, &memory, 0, cudaMemAttachGlobal) == cudaErrorInvalidValue);
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

}  // namespace wherry::test::cudart_stream_test
