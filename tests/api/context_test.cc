// Which context is current, how contexts end, and what happens to the objects that they own.
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <algorithm>
#include <atomic>
#include <future>
#include <thread>
#include <vector>

#include "support/busy.h"
#include "support/catch.h"
#include "support/session.h"

namespace wherry::test::context_test {

namespace {

const Session& session() {
  static const Session the_session("capacity=64M;capacity=32M");
  return the_session;
}

CUcontext create(CUdevice device) {
  CUcontext context = nullptr;
  WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, device));
  return context;
}

CUdevice current_device() {
  CUdevice device = -1;
  WHERRY_TRY(cuCtxGetDevice(&device));
  return device;
}

}  // namespace

TEST_CASE("contexts are current as a stack", "[api]") {
  session();
  WHERRY_TRY(cuCtxSetCurrent(nullptr));
  CHECK(current_context() == nullptr);
  CUcontext popped = nullptr;
  CHECK(cuCtxPopCurrent(&popped) == CUDA_ERROR_INVALID_CONTEXT);

  const CUcontext first = create(0);
  const CUcontext second = create(1);
  CHECK(first != second);
  CHECK(current_context() == second);
  CHECK(current_device() == 1);
  CHECK(cuCtxPopCurrent(&popped) == CUDA_SUCCESS);
  CHECK(popped == second);
  CHECK(current_device() == 0);
  CHECK(cuCtxPushCurrent(second) == CUDA_SUCCESS);
  CHECK(cuCtxPushCurrent(second) == CUDA_SUCCESS);
  CHECK(cuCtxSetCurrent(first) == CUDA_SUCCESS);  // replaces only the top of the stack
  CHECK(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(current_context() == second);
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_SUCCESS);
  CHECK(current_context() == first);

  SECTION("of one thread only") {
    std::thread([&] { CHECK(current_context() == nullptr); }).join();
  }
  CHECK(cuCtxDestroy(second) == CUDA_SUCCESS);
  CHECK(current_context() == first);
  CHECK(cuCtxDestroy(first) == CUDA_SUCCESS);
  CHECK(current_context() == nullptr);
  CHECK(cuCtxDestroy(first) == CUDA_ERROR_INVALID_CONTEXT);
  WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
}

TEST_CASE("an invalid context cannot be made current or destroyed", "[api]") {
  session();
  const CUcontext before = current_context();
  int on_the_stack = 0;
  CUcontext gone = create(0);
  WHERRY_TRY(cuCtxDestroy(gone));
  CHECK(current_context() == before);
  for (const CUcontext wrong :
       {gone, reinterpret_cast<CUcontext>(0x1), reinterpret_cast<CUcontext>(&on_the_stack),
        reinterpret_cast<CUcontext>(session().stream(0))}) {
    CHECK(cuCtxSetCurrent(wrong) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxPushCurrent(wrong) == CUDA_ERROR_INVALID_CONTEXT);
    CHECK(cuCtxDestroy(wrong) == CUDA_ERROR_INVALID_CONTEXT);
  }
  CHECK(cuCtxPushCurrent(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxDestroy(nullptr) == CUDA_ERROR_INVALID_CONTEXT);
  CHECK(cuCtxDestroy(session().context(0)) == CUDA_ERROR_INVALID_CONTEXT);  // a primary context
  CHECK(current_context() == before);
}

TEST_CASE("arguments that are invalid for contexts are refused", "[api]") {
  session();
  CUcontext context = nullptr;
  CHECK(cuCtxCreate(nullptr, nullptr, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxCreate(&context, nullptr, 0x100, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxCreate(&context, nullptr, CU_CTX_SCHED_SPIN | CU_CTX_SCHED_YIELD, 0) ==
        CUDA_ERROR_INVALID_VALUE);
  CUexecAffinityParam affinity{CU_EXEC_AFFINITY_TYPE_SM_COUNT, {{1}}};
  CUctxCigParam graphics{CIG_DATA_TYPE_NV_BLOB, nullptr};
  CUctxCreateParams params{};
  params.execAffinityParams = &affinity;
  params.numExecAffinityParams = 1;
  CHECK(cuCtxCreate(&context, &params, 0, 0) == CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY);
  params.cigParams = &graphics;
  CHECK(cuCtxCreate(&context, &params, 0, 0) == CUDA_ERROR_INVALID_VALUE);
  params.execAffinityParams = nullptr;
  CHECK(cuCtxCreate(&context, &params, 0, 0) == CUDA_ERROR_NOT_SUPPORTED);
  CHECK(context == nullptr);
  CHECK(cuCtxGetCurrent(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxGetDevice(nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDevicePrimaryCtxRetain(nullptr, 0) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a context is created with parameters that ask for nothing", "[api]") {
  session();
  CUcontext context = nullptr;
  CUctxCreateParams params{};
  REQUIRE(cuCtxCreate(&context, &params, CU_CTX_SCHED_SPIN, 0) == CUDA_SUCCESS);
  unsigned flags = 0;
  CHECK(cuCtxGetFlags(&flags) == CUDA_SUCCESS);
  CHECK(flags == CU_CTX_SCHED_SPIN);
  CHECK(cuCtxCreate(&context, &params, 0x100, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
}

TEST_CASE("a context that another thread destroyed returns an error, and its streams are gone",
          "[api]") {
  session();
  const CUcontext context = create(1);
  CUstream stream = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_DEFAULT));
  std::thread([&] { CHECK(cuCtxDestroy(context) == CUDA_SUCCESS); }).join();
  CHECK(current_context() == context);
  CUdevice device = 0;
  CUdeviceptr pointer = 0;
  CHECK(cuCtxGetDevice(&device) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamQuery(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuCtxPopCurrent(nullptr) == CUDA_SUCCESS);
}

TEST_CASE("destroying a context waits for its work and does not change managed memory", "[api]") {
  session();
  const CUcontext context = create(0);
  CUstream stream = nullptr;
  WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  const Managed<int> memory(1);
  memory[0] = 17;
  Busy busy(stream);
  busy.wait_until_begun();
  auto destroying = std::async(std::launch::async, [&] { return cuCtxDestroy(context); });
  CHECK(destroying.wait_for(std::chrono::milliseconds(50)) == std::future_status::timeout);
  busy.leave();
  CHECK(destroying.get() == CUDA_SUCCESS);
  WHERRY_TRY(cuCtxPopCurrent(nullptr));
  CHECK(memory[0] == 17);
}

TEST_CASE("a fill that was accepted while its context is destroyed is executed", "[api]") {
  session();
  for (int round = 0; round < 20; ++round) {
    const CUcontext context = create(0);
    const Managed<unsigned char> memory(64 << 10);
    std::atomic<std::size_t> taken = 0;
    std::atomic<bool> has_ended = false;
    CUresult refusal = CUDA_SUCCESS;
    std::thread filler([&] {
      cuCtxSetCurrent(context);
      while (taken < memory.size()) {
        refusal = cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(&memory[taken]), 1, 1, nullptr);
        if (refusal != CUDA_SUCCESS) break;
        ++taken;
      }
      has_ended = true;
    });
    while (taken < 20 && !has_ended) std::this_thread::yield();
    CHECK(cuCtxDestroy(context) == CUDA_SUCCESS);
    filler.join();
    CHECK((refusal == CUDA_ERROR_CONTEXT_IS_DESTROYED || taken == memory.size()));
    CHECK(std::count(memory.data(), memory.data() + memory.size(), 1) ==
          static_cast<std::ptrdiff_t>(taken));
  }
}

TEST_CASE("a primary context lives as long as it has users, always with the same handle", "[api]") {
  session();
  CUcontext context = nullptr;
  unsigned flags = 99;
  int active = 99;
  // The session has retained device 1's primary context, so the context is active already.
  CHECK(cuDevicePrimaryCtxRetain(&context, 1) == CUDA_SUCCESS);
  CHECK(context == session().context(1));
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 1);
  CHECK(flags == 0);
  WHERRY_TRY(cuCtxPushCurrent(context));
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_SUCCESS);
  CHECK(cuDevicePrimaryCtxGetState(1, &flags, &active) == CUDA_SUCCESS);
  CHECK(active == 0);
  CHECK(cuCtxSynchronize() == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuStreamQuery(session().stream(1)) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuDevicePrimaryCtxRelease(1) == CUDA_ERROR_INVALID_CONTEXT);

  CUcontext again = nullptr;
  CHECK(cuDevicePrimaryCtxRetain(&again, 1) == CUDA_SUCCESS);
  CHECK(again == context);
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);  // the context stayed current
  WHERRY_TRY(cuCtxPopCurrent(nullptr));
  CHECK(cuDevicePrimaryCtxGetState(1, nullptr, &active) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuDevicePrimaryCtxGetState(1, &flags, nullptr) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("every thread has a default stream of its own, ordered with the context's default stream",
          "[api]") {
  session();
  Busy busy(CU_STREAM_PER_THREAD);
  busy.wait_until_begun();
  CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_ERROR_NOT_READY);
  std::thread([&] {
    WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
    CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
    CHECK(wherryLaunchKernel(
              CU_STREAM_PER_THREAD, [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 1) ==
          CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
  }).join();
  CHECK(wherryLaunchKernel(
            nullptr, [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 1) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);  // it waits for the busy stream
  busy.leave();
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(CU_STREAM_PER_THREAD) == CUDA_SUCCESS);
}

TEST_CASE("work that a thread launched into its own stream finishes after the thread has ended",
          "[api]") {
  session();
  const Managed<std::atomic<int>> count(1);
  std::thread([&] {
    WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
    const auto* target = count.data();
    for (int i = 0; i < 3; ++i) {
      WHERRY_TRY(wherryLaunchKernel(
          CU_STREAM_PER_THREAD,
          [](const void* args, std::size_t begin, std::size_t end) {
            **static_cast<std::atomic<int>* const*>(args) += static_cast<int>(end - begin);
          },
          &target, sizeof target, 5));
    }
  }).join();
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(count[0] == 15);
}

TEST_CASE("many threads can create and release handles at once", "[api]") {
  session();
  std::vector<std::thread> threads;
  std::atomic<int> failures = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const auto wanted = [&](CUresult result) { failures += result == CUDA_SUCCESS ? 0 : 1; };
      for (int i = 0; i < 50; ++i) {
        CUcontext context = nullptr;
        CUstream stream = nullptr;
        wanted(cuCtxCreate(&context, nullptr, 0, t % 2));
        wanted(cuStreamCreate(&stream, i % 2 == 0 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
        wanted(wherryLaunchKernel(
            stream, [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 3));
        if (i % 3 == 0) wanted(cuStreamSynchronize(stream));
        if (i % 5 != 0) wanted(cuStreamDestroy(stream));
        wanted(cuCtxDestroy(context));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  CHECK(failures == 0);
}

}  // namespace wherry::test::context_test
