// Streams that are captured into graphs: what becomes a node, forks and joins, and what is refused.
#include <cstring>
#include <string>
#include <thread>

#include "api/graph_lists.h"
#include "support/catch.h"

namespace wherry::test::capture_test {

namespace {

constexpr auto global = CU_STREAM_CAPTURE_MODE_GLOBAL;
constexpr auto thread_local_mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
constexpr auto relaxed = CU_STREAM_CAPTURE_MODE_RELAXED;

CUstreamCaptureStatus status_of(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  WHERRY_TRY(cuStreamIsCapturing(stream, &status));
  return status;
}

// Ends a capture that an error has ended.
void check_invalidated(CUstream stream) {
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  CUgraph graph = reinterpret_cast<CUgraph>(1);
  CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(graph == nullptr);
  CHECK(status_of(stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

CUdeviceptr address_of(const void* pointer) {
  return reinterpret_cast<CUdeviceptr>(pointer);
}

}  // namespace

TEST_CASE("captured work does not run before the graph is launched, and then each time") {
  const int device = GENERATE(isolated, coherent);
  const OnDevice on(device);
  const List list;
  OwnGraph graph;
  REQUIRE(cuStreamBeginCapture(on.stream, global) == CUDA_SUCCESS);
  CHECK(status_of(on.stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  for (int number : {1, 2, 3}) give_append(on.stream, list, number);
  REQUIRE(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_SUCCESS);
  CHECK(status_of(on.stream) == CU_STREAM_CAPTURE_STATUS_NONE);
  WHERRY_TRY(cuStreamSynchronize(on.stream));
  CHECK(list.numbers().empty());
  CHECK(graph.size() == 3);
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2, 3});
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2, 3, 1, 2, 3});
}

TEST_CASE("copies, fills, host functions and prefetches become nodes") {
  const int device = GENERATE(isolated, coherent);
  const OnDevice on(device);
  constexpr std::size_t bytes = 3 << 20;
  const Managed<char> managed(bytes);
  CUdeviceptr own = 0;
  WHERRY_TRY(cuMemAlloc(&own, bytes));
  std::string from(bytes, 'a');
  std::string to(bytes, '-');
  int calls = 0;
  const CUhostFn count = [](void* data) { ++*static_cast<int*>(data); };
  OwnGraph graph;
  REQUIRE(cuStreamBeginCapture(on.stream, global) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoDAsync(own, from.data(), bytes, on.stream) == CUDA_SUCCESS);
  CHECK(cuMemsetD8Async(own, 'x', 2, on.stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyAsync(address_of(managed.data()), own, bytes, on.stream) == CUDA_SUCCESS);
  const CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  CHECK(cuMemPrefetchAsync(address_of(managed.data()), bytes, host, 0, on.stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(to.data(), own, bytes, on.stream) == CUDA_SUCCESS);
  CHECK(cuLaunchHostFunc(on.stream, count, &calls) == CUDA_SUCCESS);
  REQUIRE(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_SUCCESS);
  CHECK(graph.size() == 6);
  CHECK(to[0] == '-');
  for (const char letter : {'b', 'c'}) {
    // Pageable memory is read when the graph runs, and not when it is captured.
    std::memset(from.data(), letter, bytes);
    graph.run(on.stream);
    CHECK(std::string(to.data(), 3) == std::string("xx") + letter);
    CHECK(to.back() == letter);
    CHECK(page_state(managed.data()).resident == 1);
    CHECK(managed[bytes - 1] == letter);
  }
  CHECK(calls == 2);
  WHERRY_TRY(cuMemFree(own));
}

TEST_CASE("events fork a capture to other streams and join them") {
  const OnDevice on(isolated);
  const OnDevice other(isolated, CU_STREAM_NON_BLOCKING);
  const NewEvent forked;
  const NewEvent joined;
  const List list;
  OwnGraph graph;
  WHERRY_TRY(cuStreamBeginCapture(on.stream, global));
  give_append(on.stream, list, 1);
  CHECK(cuEventRecord(forked, on.stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(other.stream, forked, 0) == CUDA_SUCCESS);
  CHECK(status_of(other.stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  give_append(other.stream, list, 2);
  give_append(on.stream, list, 3);
  CHECK(cuEventRecord(joined, other.stream) == CUDA_SUCCESS);

  SECTION("joined") {
    CHECK(cuStreamWaitEvent(on.stream, joined, 0) == CUDA_SUCCESS);
    CUstreamCaptureStatus status{};
    cuuint64_t id = 0;
    CUgraph captured = nullptr;
    const CUgraphNode* tips = nullptr;
    std::size_t count = 0;
    CHECK(cuStreamGetCaptureInfo(on.stream, &status, &id, &captured, &tips, nullptr, &count) ==
          CUDA_SUCCESS);
    CHECK(status == CU_STREAM_CAPTURE_STATUS_ACTIVE);
    CHECK(id != 0);
    CHECK(count == 2);
    give_append(on.stream, list, 4);
    CHECK(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_SUCCESS);
    CHECK(graph.handle == captured);
    CHECK(status_of(other.stream) == CU_STREAM_CAPTURE_STATUS_NONE);
    std::size_t edges = 0;
    CHECK(cuGraphGetEdges(graph.handle, nullptr, nullptr, nullptr, &edges) == CUDA_SUCCESS);
    CHECK(edges == 4);
    graph.run(other.stream);
    const std::vector<int> numbers = list.numbers();
    REQUIRE(numbers.size() == 4);
    CHECK(numbers.front() == 1);
    CHECK(numbers.back() == 4);
    // The events stand for moments of a capture.
    CHECK(cuEventQuery(joined) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(cuEventSynchronize(joined) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(cuStreamWaitEvent(other.stream, joined, 0) == CUDA_ERROR_CAPTURED_EVENT);
    CHECK(cuEventRecord(joined, other.stream) == CUDA_SUCCESS);
    CHECK(cuEventSynchronize(joined) == CUDA_SUCCESS);
  }
  SECTION("not joined") {
    CHECK(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
    CHECK(graph.handle == nullptr);
    CHECK(status_of(other.stream) == CU_STREAM_CAPTURE_STATUS_NONE);
  }
  SECTION("ended in the other stream") {
    CHECK(cuStreamEndCapture(other.stream, &graph.handle) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
    check_invalidated(on.stream);
  }
  SECTION("the other stream is destroyed") {
    CUstream third = nullptr;
    WHERRY_TRY(cuStreamCreate(&third, CU_STREAM_NON_BLOCKING));
    CHECK(cuStreamWaitEvent(third, joined, 0) == CUDA_SUCCESS);
    CHECK(cuStreamDestroy(third) == CUDA_SUCCESS);
    check_invalidated(on.stream);
  }
  SECTION("the event is queried") {
    CHECK(cuEventQuery(forked) == CUDA_ERROR_CAPTURED_EVENT);
    check_invalidated(on.stream);
  }
}

TEST_CASE("nodes of several devices run on theirs, in order") {
  const OnDevice on(isolated);
  const OnDevice there(coherent);
  const NewEvent joined;
  const List list;
  OwnGraph graph;
  WHERRY_TRY(cuCtxPushCurrent(session().context(isolated)));
  const NewEvent forked;
  WHERRY_TRY(cuCtxPopCurrent(nullptr));
  WHERRY_TRY(cuStreamBeginCapture(on.stream, relaxed));
  for (int number : {1, 3}) {
    give_append(on.stream, list, number);
    WHERRY_TRY(cuEventRecord(forked, on.stream));
    WHERRY_TRY(cuStreamWaitEvent(there.stream, forked, 0));
    give_append(there.stream, list, number + 1);
    WHERRY_TRY(cuEventRecord(joined, there.stream));
    WHERRY_TRY(cuStreamWaitEvent(on.stream, joined, 0));
  }
  WHERRY_TRY(cuStreamEndCapture(on.stream, &graph.handle));
  for (CUstream stream : {on.stream, there.stream}) {
    list.clear();
    graph.run(stream);
    CHECK(list.numbers() == std::vector{1, 2, 3, 4});
  }
}

TEST_CASE("external events become nodes") {
  const OnDevice on(isolated);
  const NewEvent event;
  CHECK(cuEventRecordWithFlags(event, on.stream, CU_EVENT_RECORD_EXTERNAL) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamWaitEvent(on.stream, event, CU_EVENT_WAIT_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  OwnGraph graph;
  WHERRY_TRY(cuStreamBeginCapture(on.stream, relaxed));
  CHECK(cuStreamWaitEvent(on.stream, event, CU_EVENT_WAIT_EXTERNAL) == CUDA_SUCCESS);
  CHECK(cuEventRecordWithFlags(event, on.stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_SUCCESS);
  WHERRY_TRY(cuStreamEndCapture(on.stream, &graph.handle));
  CHECK(graph.size() == 2);
  CHECK(cuEventElapsedTime(nullptr, event, event) == CUDA_ERROR_INVALID_VALUE);
  float milliseconds = -1;
  CHECK(cuEventElapsedTime(&milliseconds, event, event) == CUDA_ERROR_INVALID_HANDLE);
  graph.run(on.stream);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuEventElapsedTime(&milliseconds, event, event) == CUDA_SUCCESS);
}

TEST_CASE("what cannot be captured fails, and the capture with it") {
  const OnDevice on(isolated, CU_STREAM_NON_BLOCKING);
  const List list;
  WHERRY_TRY(cuStreamBeginCapture(on.stream, relaxed));
  give_append(on.stream, list, 1);
  const auto unsupported = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  SECTION("synchronizing") {
    CHECK(cuStreamSynchronize(on.stream) == unsupported);
  }
  SECTION("querying") {
    CHECK(cuStreamQuery(on.stream) == unsupported);
  }
  SECTION("synchronizing the context") {
    CHECK(cuCtxSynchronize() == unsupported);
  }
  SECTION("a callback") {
    const CUstreamCallback callback = [](CUstream, CUresult, void*) {};
    CHECK(cuStreamAddCallback(on.stream, callback, nullptr, 0) == unsupported);
  }
  SECTION("an attachment") {
    CHECK(cuStreamAttachMemAsync(on.stream, address_of(list.data()), 0, CU_MEM_ATTACH_SINGLE) ==
          unsupported);
  }
  SECTION("a stream-ordered allocation") {
    CUdeviceptr memory = 0;
    CHECK(cuMemAllocAsync(&memory, 64, on.stream) == unsupported);
  }
  SECTION("another capture of the stream") {
    CHECK(cuStreamBeginCapture(on.stream, relaxed) == CUDA_ERROR_ILLEGAL_STATE);
    CUgraph graph = nullptr;
    CHECK(cuStreamEndCapture(on.stream, &graph) == CUDA_SUCCESS);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    return;
  }
  SECTION("an event from outside") {
    const NewEvent event;
    CHECK(cuStreamWaitEvent(on.stream, event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  }
  SECTION("an event of another capture") {
    const OnDevice other(isolated, CU_STREAM_NON_BLOCKING);
    const NewEvent event;
    WHERRY_TRY(cuStreamBeginCapture(other.stream, relaxed));
    WHERRY_TRY(cuEventRecord(event, other.stream));
    CHECK(cuStreamWaitEvent(on.stream, event, 0) == CUDA_ERROR_STREAM_CAPTURE_MERGE);
    check_invalidated(other.stream);
  }
  CHECK(cuLaunchHostFunc(
            on.stream, [](void*) {}, nullptr) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  check_invalidated(on.stream);
  give_append(on.stream, list, 2);
  WHERRY_TRY(cuStreamSynchronize(on.stream));
  CHECK(list.numbers() == std::vector{2});
}

TEST_CASE("the default stream conflicts with captures of the streams that it is ordered with") {
  const bool is_blocking = GENERATE(true, false);
  const OnDevice on(isolated, is_blocking ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING);
  const List list;
  CHECK(cuStreamBeginCapture(nullptr, relaxed) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  WHERRY_TRY(cuStreamBeginCapture(on.stream, relaxed));
  CUstreamCaptureStatus status{};
  CHECK(cuStreamIsCapturing(nullptr, &status) ==
        (is_blocking ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS));
  CHECK(status_of(on.stream) == CU_STREAM_CAPTURE_STATUS_ACTIVE);
  CHECK(cuMemsetD8(address_of(list.data()), 0, 4) ==
        (is_blocking ? CUDA_ERROR_STREAM_CAPTURE_IMPLICIT : CUDA_SUCCESS));
  if (is_blocking) return check_invalidated(on.stream);
  const NewEvent event;
  WHERRY_TRY(cuEventRecord(event, on.stream));
  CHECK(cuStreamWaitEvent(nullptr, event, 0) == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  check_invalidated(on.stream);
}

TEST_CASE("the mode says which threads may not make calls that might wait") {
  const auto mode = GENERATE(global, thread_local_mode, relaxed);
  const bool is_other_thread = GENERATE(false, true);
  const bool is_refused = is_other_thread ? mode == global : mode != relaxed;
  const OnDevice on(isolated);
  const List list;
  WHERRY_TRY(cuStreamBeginCapture(on.stream, mode));
  const auto call = [&] {
    WHERRY_TRY(cuCtxPushCurrent(session().context(isolated)));
    CUdeviceptr memory = 0;
    const CUresult allocated = cuMemAlloc(&memory, 64);
    if (allocated == CUDA_SUCCESS) WHERRY_TRY(cuMemFree(memory));
    cuCtxPopCurrent(nullptr);
    return allocated;
  };
  CUresult result = CUDA_SUCCESS;
  if (is_other_thread)
    std::thread([&] { result = call(); }).join();
  else
    result = call();
  CHECK(result == (is_refused ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : CUDA_SUCCESS));
  if (is_refused) return check_invalidated(on.stream);
  OwnGraph graph;
  CUresult ended = CUDA_SUCCESS;
  std::thread([&] { ended = cuStreamEndCapture(on.stream, &graph.handle); }).join();
  CHECK(ended == (mode == relaxed ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD));
  if (mode != relaxed) CHECK(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_SUCCESS);
  CHECK(graph.size() == 0);
}

TEST_CASE("a thread can allow itself calls that might wait") {
  const OnDevice on(isolated);
  WHERRY_TRY(cuStreamBeginCapture(on.stream, global));
  CUstreamCaptureMode mode = relaxed;
  WHERRY_TRY(cuThreadExchangeStreamCaptureMode(&mode));
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 64) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  WHERRY_TRY(cuThreadExchangeStreamCaptureMode(&mode));
  CHECK(mode == relaxed);
  OwnGraph graph;
  CHECK(cuStreamEndCapture(on.stream, &graph.handle) == CUDA_SUCCESS);
}

TEST_CASE("a capture that is not there cannot end, and wrong arguments are refused") {
  const OnDevice on(isolated);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(on.stream, &graph) == CUDA_ERROR_ILLEGAL_STATE);
  CHECK(cuStreamEndCapture(on.stream, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBeginCapture(on.stream, static_cast<CUstreamCaptureMode>(3)) ==
        CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamBeginCapture(reinterpret_cast<CUstream>(0x77), global) ==
        CUDA_ERROR_INVALID_HANDLE);
  CHECK(status_of(on.stream) == CU_STREAM_CAPTURE_STATUS_NONE);
}

TEST_CASE("the runtime API captures, too, also a thread's own default stream") {
  const OnDevice on(isolated);
  const List list;
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal) == cudaSuccess);
  give_append(CU_STREAM_PER_THREAD, list, 5);
  CHECK(cudaStreamSynchronize(cudaStreamPerThread) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaStreamEndCapture(cudaStreamPerThread, &graph) == cudaErrorStreamCaptureInvalidated);
  CHECK(graph == nullptr);
  REQUIRE(cudaStreamBeginCapture(cudaStreamPerThread, cudaStreamCaptureModeGlobal) == cudaSuccess);
  give_append(CU_STREAM_PER_THREAD, list, 6);
  REQUIRE(cudaStreamEndCapture(cudaStreamPerThread, &graph) == cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(cudaGraphLaunch(exec, on.stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(on.stream) == cudaSuccess);
  CHECK(list.numbers() == std::vector{6});
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("a thread that ends leaves no capture of its default stream") {
  std::thread([] {
    WHERRY_TRY(cuCtxPushCurrent(session().context(isolated)));
    WHERRY_TRY(cuStreamBeginCapture(CU_STREAM_PER_THREAD, global));
  }).join();
  CUdeviceptr memory = 0;
  CHECK(cuMemAlloc(&memory, 64) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

}  // namespace wherry::test::capture_test
