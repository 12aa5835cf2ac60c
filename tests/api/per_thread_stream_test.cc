// Programs that are compiled so that the NULL stream is the calling thread's own stream.
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>

#include <atomic>

#include "support/busy.h"
#include "support/catch.h"
#include "support/session.h"

using namespace wherry::test;

namespace {

const Session& session() {
  static const Session the_session("capacity=64M,workers=4");
  return the_session;
}

}  // namespace

TEST_CASE("every function uses the thread's own stream for the NULL stream", "[api]") {
  const Session& s = session();
  unsigned long long own = 0;
  unsigned long long null = 0;
  WHERRY_TRY(cuStreamGetId(CU_STREAM_PER_THREAD, &own));
  CHECK(cuStreamGetId(nullptr, &null) == CUDA_SUCCESS);
  CHECK(null == own);
  CHECK(cudaStreamGetId(nullptr, &null) == cudaSuccess);
  CHECK(null == own);
  CHECK(cuStreamGetId(CU_STREAM_LEGACY, &null) == CUDA_SUCCESS);
  CHECK(null != own);

  // The thread's own stream does not wait for work of the context's default stream.
  {
    Busy legacy(CU_STREAM_LEGACY);
    CHECK(cuStreamQuery(nullptr) == CUDA_SUCCESS);
    CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
    CHECK(cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
    legacy.leave();
    CHECK(cuStreamSynchronize(CU_STREAM_LEGACY) == CUDA_SUCCESS);
  }

  // The thread's own stream waits for a busy non-blocking one, and the context's default stream
  // waits for the thread's own.
  CUevent event = nullptr;
  WHERRY_TRY(cuEventCreate(&event, CU_EVENT_DEFAULT));
  Busy busy(s.stream(0));
  WHERRY_TRY(cuEventRecord(event, s.stream(0)));
  CHECK(cuStreamWaitEvent(nullptr, event, 0) == CUDA_SUCCESS);
  CHECK(cuStreamQuery(nullptr) == CUDA_ERROR_NOT_READY);
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  CHECK(cuStreamQuery(CU_STREAM_LEGACY) == CUDA_ERROR_NOT_READY);
  CHECK(cudaStreamQuery(cudaStreamLegacy) == cudaErrorNotReady);

  // Work given to the thread's own stream waits, too.
  static std::atomic<int> called = 0;
  const auto count = [](void*) { ++called; };
  CHECK(cuLaunchHostFunc(nullptr, count, nullptr) == CUDA_SUCCESS);
  CHECK(cudaLaunchHostFunc(nullptr, count, nullptr) == cudaSuccess);
  CHECK(cuStreamAddCallback(
            nullptr, [](CUstream, CUresult, void*) { ++called; }, nullptr, 0) == CUDA_SUCCESS);
  CHECK(cudaStreamAddCallback(
            nullptr, [](cudaStream_t, cudaError_t, void*) { ++called; }, nullptr, 0) ==
        cudaSuccess);
  CHECK(cuEventRecord(event, nullptr) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(cudaEventRecordWithFlags(event) == cudaSuccess);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(called == 0);
  busy.leave();
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);
  CHECK(called == 4);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  WHERRY_TRY(cuEventDestroy(event));
}

TEST_CASE("memory can be attached to the thread's own stream as the NULL stream", "[api]") {
  session();
  CUdeviceptr memory = 0;
  WHERRY_TRY(cuMemAllocManaged(&memory, 4096, CU_MEM_ATTACH_GLOBAL));
  CHECK(cuStreamAttachMemAsync(nullptr, memory, 0, CU_MEM_ATTACH_SINGLE) == CUDA_SUCCESS);
  CHECK(cudaStreamAttachMemAsync(nullptr, reinterpret_cast<void*>(memory)) == cudaSuccess);
  CHECK(cuStreamAttachMemAsync(CU_STREAM_LEGACY, memory, 0, CU_MEM_ATTACH_SINGLE) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  WHERRY_TRY(cuMemFree(memory));
}

TEST_CASE("the thread's own stream reports its attributes as the NULL stream", "[api]") {
  const Session& s = session();
  int priority = 99;
  unsigned flags = 99;
  CUdevice device = 99;
  CUcontext context = nullptr;
  CHECK(cuStreamGetPriority(nullptr, &priority) == CUDA_SUCCESS);
  CHECK(cuStreamGetFlags(nullptr, &flags) == CUDA_SUCCESS);
  CHECK(cuStreamGetDevice(nullptr, &device) == CUDA_SUCCESS);
  CHECK(cuStreamGetCtx(nullptr, &context) == CUDA_SUCCESS);
  CHECK(cuStreamGetCtx_v2(nullptr, &context, nullptr) == CUDA_SUCCESS);
  CHECK(cudaStreamGetPriority(nullptr, &priority) == cudaSuccess);
  CHECK(cudaStreamGetFlags(nullptr, &flags) == cudaSuccess);
  CHECK(cudaStreamGetDevice(nullptr, &device) == cudaSuccess);
  CHECK(priority == 0);
  CHECK(flags == CU_STREAM_DEFAULT);
  CHECK(device == 0);
  CHECK(context == s.context(0));
}
