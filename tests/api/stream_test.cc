// Streams through the C functions: their attributes, their order, and callbacks.
#include <wherry/cuda.h>
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <atomic>
#include <climits>
#include <set>
#include <thread>
#include <vector>

#include "support/busy.h"
#include "support/catch.h"
#include "support/own.h"
#include "support/session.h"

namespace wherry::test::stream_test {

namespace {

const Session& session() {
  static const Session the_session("capacity=64M,workers=4;capacity=64M,workers=1");
  return the_session;
}

// Objects of a device's primary context.
struct OwnStream : Own<CUstream, cuStreamDestroy> {
  explicit OwnStream(int device = 0, unsigned flags = CU_STREAM_NON_BLOCKING) {
    WHERRY_TRY(cuCtxPushCurrent(session().context(device)));
    WHERRY_TRY(cuStreamCreate(&handle, flags));
    WHERRY_TRY(cuCtxPopCurrent(nullptr));
  }
};
struct OwnEvent : Own<CUevent, cuEventDestroy> {
  explicit OwnEvent(int device = 0) {
    WHERRY_TRY(cuCtxPushCurrent(session().context(device)));
    WHERRY_TRY(cuEventCreate(&handle, CU_EVENT_DISABLE_TIMING));
    WHERRY_TRY(cuCtxPopCurrent(nullptr));
  }
};

void nothing(const void*, std::size_t, std::size_t) {}

// The arguments of a callback.
struct Told {
  CUstream stream = nullptr;
  CUresult status = CUDA_ERROR_UNKNOWN;
  CUresult call = CUDA_SUCCESS;  // the result of an API call inside the callback
  std::atomic<int> times = 0;

  static void callback(CUstream stream, CUresult status, void* data) {
    auto* told = static_cast<Told*>(data);
    told->stream = stream;
    told->status = status;
    told->call = cuStreamQuery(stream);
    ++told->times;
  }
};

}  // namespace

TEST_CASE("a stream has the priority that it was created with, within the valid range", "[api]") {
  session();
  int least = 99;
  int greatest = 99;
  REQUIRE(cuCtxGetStreamPriorityRange(&least, &greatest) == CUDA_SUCCESS);
  CHECK(least == 0);
  CHECK(greatest == -5);
  CHECK(cuCtxGetStreamPriorityRange(nullptr, &greatest) == CUDA_SUCCESS);
  CHECK(cuCtxGetStreamPriorityRange(&least, nullptr) == CUDA_SUCCESS);
  CHECK(cuCtxGetStreamPriorityRange(nullptr, nullptr) == CUDA_SUCCESS);
  const std::pair<int, int> asked_and_given[] = {{0, 0},        {-1, -1}, {-5, -5},    {-6, -5},
                                                 {INT_MIN, -5}, {1, 0},   {INT_MAX, 0}};
  for (const auto& [asked, given] : asked_and_given) {
    CUstream stream = nullptr;
    REQUIRE(cuStreamCreateWithPriority(&stream, CU_STREAM_DEFAULT, asked) == CUDA_SUCCESS);
    int priority = 99;
    CHECK(cuStreamGetPriority(stream, &priority) == CUDA_SUCCESS);
    CHECK(priority == given);
    CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  }
  for (const CUstream standing : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    int priority = 99;
    CHECK(cuStreamGetPriority(standing, &priority) == CUDA_SUCCESS);
    CHECK(priority == 0);
  }
  int supported = 0;
  WHERRY_TRY(cuDeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 0));
  CHECK(supported == 1);
}

TEST_CASE("a free worker takes the kernel of the highest priority", "[api]") {
  const Session& s = session();
  WHERRY_TRY(cuCtxSetCurrent(s.context(1)));  // device 1 has one worker
  const Managed<int> order(4);
  Busy busy(s.stream(1));
  busy.wait_until_begun();
  struct Args {
    int* order;
    int priority;
  };
  std::vector<CUstream> streams;
  for (const int priority : {0, -5, -2}) {
    const Args args{order.data(), priority};
    WHERRY_TRY(
        cuStreamCreateWithPriority(&streams.emplace_back(), CU_STREAM_NON_BLOCKING, priority));
    WHERRY_TRY(wherryLaunchKernel(
        streams.back(),
        [](const void* data, std::size_t, std::size_t) {
          const Args& given = *static_cast<const Args*>(data);
          given.order[++given.order[0]] = given.priority;
        },
        &args, sizeof args, 1));
  }
  busy.leave();
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(order[1] == -5);
  CHECK(order[2] == -2);
  CHECK(order[3] == 0);
  for (const CUstream stream : streams) WHERRY_TRY(cuStreamDestroy(stream));
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
}

TEST_CASE("a stream returns its flags, its device and its context", "[api]") {
  session();
  const OwnStream blocking(0, CU_STREAM_DEFAULT);
  const OwnStream elsewhere(1, CU_STREAM_NON_BLOCKING);
  const auto flags_of = [](CUstream stream) {
    unsigned flags = 99;
    CHECK(cuStreamGetFlags(stream, &flags) == CUDA_SUCCESS);
    return flags;
  };
  const auto device_of = [](CUstream stream) {
    CUdevice device = 99;
    CHECK(cuStreamGetDevice(stream, &device) == CUDA_SUCCESS);
    return device;
  };
  const auto context_of = [](CUstream stream) {
    CUcontext context = nullptr;
    CHECK(cuStreamGetCtx(stream, &context) == CUDA_SUCCESS);
    CUcontext again = nullptr;
    CUgreenCtx green = reinterpret_cast<CUgreenCtx>(0x10);
    CHECK(cuStreamGetCtx_v2(stream, &again, &green) == CUDA_SUCCESS);
    CHECK(again == context);
    CHECK(green == nullptr);
    return context;
  };
  CHECK(flags_of(blocking) == CU_STREAM_DEFAULT);
  CHECK(flags_of(elsewhere) == CU_STREAM_NON_BLOCKING);
  CHECK(device_of(blocking) == 0);
  CHECK(device_of(elsewhere) == 1);
  CHECK(context_of(blocking) == session().context(0));
  CHECK(context_of(elsewhere) == session().context(1));
  for (const CUstream standing : {CUstream{nullptr}, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD}) {
    CHECK(flags_of(standing) == CU_STREAM_DEFAULT);
    CHECK(device_of(standing) == 0);
    CHECK(context_of(standing) == session().context(0));
  }
}

TEST_CASE("no two streams have the same id", "[api]") {
  session();
  std::set<unsigned long long> ids;
  const auto add = [&](CUstream stream) {
    unsigned long long id = 0;
    CHECK(cuStreamGetId(stream, &id) == CUDA_SUCCESS);
    return ids.insert(id).second;
  };
  CHECK(add(nullptr));
  CHECK_FALSE(add(CU_STREAM_LEGACY));
  CHECK(add(CU_STREAM_PER_THREAD));
  std::thread([&] {
    WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
    CHECK(add(CU_STREAM_PER_THREAD));
  }).join();
  for (int i = 0; i < 100; ++i) {
    const OwnStream stream(i % 2);
    CHECK(add(stream));
  }
}

TEST_CASE("queries on invalid streams, or without a result pointer, are refused", "[api]") {
  session();
  const OwnEvent event;
  CUstream gone = nullptr;
  WHERRY_TRY(cuStreamCreate(&gone, CU_STREAM_DEFAULT));
  WHERRY_TRY(cuStreamDestroy(gone));
  int number = 0;
  unsigned flags = 0;
  unsigned long long id = 0;
  CUcontext context = nullptr;
  CHECK(cuStreamGetPriority(gone, &number) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamGetFlags(gone, &flags) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamGetId(gone, &id) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamGetDevice(gone, &number) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamGetCtx(gone, &context) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamWaitEvent(gone, event, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamAddCallback(gone, Told::callback, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamGetPriority(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamGetFlags(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamGetId(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamGetDevice(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamGetCtx(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  std::thread([&] {
    CHECK(cuStreamGetId(nullptr, &id) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuStreamGetCtx(CU_STREAM_PER_THREAD, &context) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxGetStreamPriorityRange(&number, &number) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuStreamWaitEvent(nullptr, event, 0) == CUDA_ERROR_INVALID_CONTEXT);
  }).join();
}

TEST_CASE("work of different streams runs at the same time, and of one stream in order", "[api]") {
  session();
  const OwnStream first;
  const OwnStream second;
  Busy one(first);
  one.wait_until_begun();
  Busy behind(first);
  Busy other(second);
  other.wait_until_begun();
  CHECK_FALSE(behind.has_begun());
  one.leave();
  behind.wait_until_begun();
}

TEST_CASE("a stream waits for an event of another stream, on its device or on another", "[api]") {
  const int device = GENERATE(0, 1);
  session();
  const OwnStream first(device);
  const OwnStream second(0);
  const OwnEvent event(device);
  Busy before(first);
  WHERRY_TRY(cuEventRecord(event, first));
  REQUIRE(cuStreamWaitEvent(second, event, 0) == CUDA_SUCCESS);
  Busy after(second);
  before.wait_until_begun();
  CHECK(cuStreamQuery(second) == CUDA_ERROR_NOT_READY);
  CHECK_FALSE(after.has_begun());
  before.leave();
  after.wait_until_begun();
}

TEST_CASE("a stream waits for an event of another context of its device", "[api]") {
  session();
  CUcontext other = nullptr;
  WHERRY_TRY(cuCtxCreate(&other, nullptr, 0, 0));
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, 0));
  Busy before(nullptr);
  WHERRY_TRY(cuEventRecord(event, nullptr));
  WHERRY_TRY(cuCtxPopCurrent(nullptr));
  const OwnStream here;
  REQUIRE(cuStreamWaitEvent(here, event, 0) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(here) == CUDA_ERROR_NOT_READY);
  before.leave();
  CHECK(cuStreamSynchronize(here) == CUDA_SUCCESS);
  CHECK(cuCtxDestroy(other) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("a wait is for the event's last recording before it", "[api]") {
  session();
  const OwnStream first;
  const OwnStream second;
  const OwnStream third;
  const OwnEvent event;
  // The event is not recorded yet: the wait does nothing.
  REQUIRE(cuStreamWaitEvent(third, event, 0) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(third) == CUDA_SUCCESS);
  Busy early(first);
  WHERRY_TRY(cuEventRecord(event, first));
  WHERRY_TRY(cuStreamWaitEvent(third, event, 0));
  Busy late(second);
  WHERRY_TRY(cuEventRecord(event, second));
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  early.leave();
  CHECK(cuStreamSynchronize(third) == CUDA_SUCCESS);  // the later recording does not matter
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  late.leave();
  CHECK(cuEventSynchronize(event) == CUDA_SUCCESS);
}

TEST_CASE("a wait with invalid arguments is refused", "[api]") {
  session();
  const OwnEvent event;
  CUevent gone = nullptr;
  WHERRY_TRY(cuEventCreate(&gone, 0));
  WHERRY_TRY(cuEventDestroy(gone));
  CHECK(cuStreamWaitEvent(nullptr, event, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitEvent(nullptr, event, 99) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitEvent(nullptr, gone, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuStreamWaitEvent(nullptr, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
}

TEST_CASE("the default stream waits for blocking streams, also for those of other threads",
          "[api]") {
  session();
  const OwnStream blocking(0, CU_STREAM_DEFAULT);
  const OwnStream free_running(0, CU_STREAM_NON_BLOCKING);
  Busy before(blocking);
  Busy legacy(nullptr);
  Busy beside(free_running);
  beside.wait_until_begun();
  before.wait_until_begun();
  CHECK_FALSE(legacy.has_begun());
  WHERRY_TRY(wherryLaunchKernel(CU_STREAM_PER_THREAD, nothing, nullptr, 0, 1));
  before.leave();
  legacy.wait_until_begun();
  CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  legacy.leave();
  CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
}

TEST_CASE("a wait for the default stream sees what kernels of blocking streams wrote", "[api]") {
  session();
  CUstream const stands_for = GENERATE(static_cast<CUstream>(nullptr), CU_STREAM_LEGACY);
  const bool is_own = GENERATE(false, true);
  const OwnStream created(0, CU_STREAM_DEFAULT);
  CUstream const blocking = is_own ? CU_STREAM_PER_THREAD : static_cast<CUstream>(created);
  const Managed<int> memory(1);
  int* word = memory.data();
  CHECK(cuStreamQuery(stands_for) == CUDA_SUCCESS);
  Busy busy(blocking);
  WHERRY_TRY(wherryLaunchKernel(
      blocking,
      [](const void* args, std::size_t, std::size_t) { **static_cast<int* const*>(args) = 7; },
      &word, sizeof word, 1));
  CHECK(cuStreamQuery(stands_for) == CUDA_ERROR_NOT_READY);
  CHECK(cudaStreamQuery(stands_for) == cudaErrorNotReady);
  std::thread leaving([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    busy.leave();
  });
  CHECK(cuStreamSynchronize(stands_for) == CUDA_SUCCESS);
  CHECK(memory[0] == 7);
  CHECK(cuStreamQuery(stands_for) == CUDA_SUCCESS);
  leaving.join();
}

TEST_CASE("a wait for the default stream does not include non-blocking streams", "[api]") {
  session();
  const OwnStream free_running(0, CU_STREAM_NON_BLOCKING);
  Busy busy(free_running);
  CHECK(cuStreamQuery(nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(free_running) == CUDA_ERROR_NOT_READY);
}

TEST_CASE("a destroyed stream finishes its work, also work that waits for another device",
          "[api]") {
  const Session& s = session();
  const OwnStream first(1);
  const OwnEvent event(1);
  const Managed<int> memory(1);
  Busy before(first);
  WHERRY_TRY(cuEventRecord(event, first));
  CUstream stream = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  WHERRY_TRY(cuStreamWaitEvent(stream, event, 0));
  int* word = memory.data();
  WHERRY_TRY(wherryLaunchKernel(
      stream,
      [](const void* args, std::size_t, std::size_t) { **static_cast<int* const*>(args) = 7; },
      &word, sizeof word, 1));
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
  before.leave();
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(memory[0] == 7);
}

// ---- callbacks

TEST_CASE("a callback is called once, in stream order, with its arguments", "[api]") {
  session();
  const OwnStream stream;
  Told told;
  Busy before(stream);
  REQUIRE(cuStreamAddCallback(stream, Told::callback, &told, 0) == CUDA_SUCCESS);
  Busy after(stream);
  before.wait_until_begun();
  CHECK(told.times == 0);
  before.leave();
  after.wait_until_begun();
  CHECK(told.times == 1);
  CHECK(told.stream == CUstream{stream});
  CHECK(told.status == CUDA_SUCCESS);
  after.leave();
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(told.times == 1);
}

TEST_CASE("a callback cannot call this API", "[api]") {
  session();
  Told told;
  WHERRY_TRY(cuStreamAddCallback(nullptr, Told::callback, &told, 0));
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(told.times == 1);
  CHECK(told.call == CUDA_ERROR_NOT_PERMITTED);
}

TEST_CASE("a callback without a function, or with flags, is refused", "[api]") {
  session();
  CHECK(cuStreamAddCallback(nullptr, nullptr, nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamAddCallback(nullptr, Told::callback, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);
}

}  // namespace wherry::test::stream_test
