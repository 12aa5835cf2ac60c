// The reasons of wherryGetLastErrorMessage, family by family: for each kind of mistake a call that
// makes it, and how the message tells it.
#include <wherry/cuda_runtime_api.h>
#include <wherry/wherry.h>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/own.h"
#include "support/session.h"

using namespace wherry::test;

extern "C" void refused_kernel(const wherryLaunchInfo*, void**) {}
WHERRY_KERNEL_PARAMS(refused_kernel, sizeof(int));
// The form that programs compiled by nvcc call. Wherry's headers declare only a template.
extern "C" cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, std::size_t bytes,
                                          std::size_t offset, cudaMemcpyKind kind);

namespace {

using Catch::Matchers::StartsWith;

constexpr std::size_t page = 4096;
constexpr std::size_t block = std::size_t{2} << 20;  // the granularity of cuMemCreate

const Session& session() {
  static const Session the_session("capacity=64M;capacity=64M");
  return the_session;
}

std::string hex(unsigned long long number) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", number);
  return text;
}
template <typename T>
std::string hex(T* pointer) {
  return hex(reinterpret_cast<std::uintptr_t>(pointer));
}

// A handle that no object has.
int no_object = 0;
template <typename Handle>
Handle stale() {
  return reinterpret_cast<Handle>(&no_object);
}

// A call that is refused: its name, its result, and how the reason begins.
struct Refusal {
  std::string name;
  std::string code;
  std::function<int()> call;
  std::string reason;
};
#define REFUSAL(name, code, call, ...)                               \
  Refusal {                                                          \
    name, #code, [&] { return static_cast<int>(call); }, __VA_ARGS__ \
  }

void check(const std::vector<Refusal>& refusals) {
  for (const Refusal& refusal : refusals) {
    INFO(refusal.name << ": " << refusal.reason);
    CHECK(refusal.call() != 0);
    const std::string message = wherryGetLastErrorMessage();
    CHECK_THAT(message, StartsWith(refusal.name + ": " + refusal.code + " ("));
    const std::size_t end = message.find("): ");
    const std::string reason = end == std::string::npos ? "" : message.substr(end + 3);
    CHECK_THAT(reason, StartsWith(refusal.reason));
    // Behind "; " the message says what to do.
    CHECK(reason.find("; ") != std::string::npos);
  }
}

using OwnGraph = Own<CUgraph, cuGraphDestroy>;
using OwnExec = Own<CUgraphExec, cuGraphExecDestroy>;
using OwnPool = Own<CUmemoryPool, cuMemPoolDestroy>;
using OwnMemory = Own<CUdeviceptr, cuMemFree>;

struct NewGraph : OwnGraph {
  NewGraph() { WHERRY_TRY(cuGraphCreate(&handle, 0)); }

  CUgraphNode add() const {
    CUgraphNode node = nullptr;
    WHERRY_TRY(cuGraphAddEmptyNode(&node, handle, nullptr, 0));
    return node;
  }
};
CUmemPoolProps pool_of_device(int device) {
  CUmemPoolProps properties{};
  properties.allocType = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = {CU_MEM_LOCATION_TYPE_DEVICE, device};
  return properties;
}
struct NewPool : OwnPool {
  explicit NewPool(const CUmemPoolProps& properties = pool_of_device(0)) {
    WHERRY_TRY(cuMemPoolCreate(&handle, &properties));
  }
};
struct DeviceMemory : OwnMemory {
  explicit DeviceMemory(std::size_t bytes = page) { WHERRY_TRY(cuMemAlloc(&handle, bytes)); }
};

CUmemAllocationProp memory_of(CUmemLocation location) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location = location;
  return properties;
}

// The stream is captured as long as this lives.
class Capturing {
 public:
  explicit Capturing(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED)
      : stream_(stream) {
    WHERRY_TRY(cuStreamBeginCapture(stream, mode));
  }
  ~Capturing() {
    OwnGraph graph;
    cuStreamEndCapture(stream_, &graph.handle);
  }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;

 private:
  CUstream stream_;
};

}  // namespace

TEST_CASE("refusals of streams", "[api]") {
  session();
  const NewStream stream;
  const Managed<char> managed(2 * page);
  const auto address = reinterpret_cast<CUdeviceptr>(managed.data());
  const DeviceMemory device;
  CUstream made = nullptr;
  int number = 0;
  const auto callback = [](CUstream, CUresult, void*) {};
  check({
      REFUSAL("cuStreamCreate", CUDA_ERROR_INVALID_VALUE, cuStreamCreate(nullptr, 0),
              "phStream is NULL; "),
      REFUSAL("cuStreamCreate", CUDA_ERROR_INVALID_VALUE, cuStreamCreate(&made, 8),
              "flags is 0x8; pass CU_STREAM_DEFAULT"),
      REFUSAL("cuStreamDestroy", CUDA_ERROR_INVALID_HANDLE, cuStreamDestroy(nullptr),
              "the stream is NULL; pass one of cuStreamCreate"),
      REFUSAL("cuStreamSynchronize", CUDA_ERROR_INVALID_HANDLE,
              cuStreamSynchronize(stale<CUstream>()),
              hex(&no_object) + " is no stream; pass one of cuStreamCreate that is not destroyed"),
      REFUSAL("cuStreamGetPriority", CUDA_ERROR_INVALID_VALUE,
              cuStreamGetPriority(stream.handle, nullptr), "priority is NULL; "),
      REFUSAL("cuStreamAddCallback", CUDA_ERROR_INVALID_VALUE,
              cuStreamAddCallback(stream.handle, callback, nullptr, 3), "flags is 0x3; pass 0"),
      REFUSAL("cuStreamAttachMemAsync", CUDA_ERROR_INVALID_VALUE,
              cuStreamAttachMemAsync(stream.handle, device.handle, 0, CU_MEM_ATTACH_GLOBAL),
              hex(device.handle) + " is device memory (cuMemAlloc), not managed memory; "),
      REFUSAL("cuStreamAttachMemAsync", CUDA_ERROR_INVALID_VALUE,
              cuStreamAttachMemAsync(stream.handle, address + page, 0, CU_MEM_ATTACH_GLOBAL),
              hex(address + page) + " lies inside the allocation " + hex(address) + "+8192; "),
      REFUSAL("cuStreamAttachMemAsync", CUDA_ERROR_INVALID_VALUE,
              cuStreamAttachMemAsync(stream.handle, address, page, CU_MEM_ATTACH_GLOBAL),
              "length is 4096, and the allocation at " + hex(address) + " has 8192 bytes"),
      REFUSAL("cuStreamAttachMemAsync", CUDA_ERROR_INVALID_VALUE,
              cuStreamAttachMemAsync(stream.handle, address, 0, 64),
              "flags is 0x40; pass CU_MEM_ATTACH_GLOBAL"),
      REFUSAL("cuStreamAttachMemAsync", CUDA_ERROR_INVALID_VALUE,
              cuStreamAttachMemAsync(nullptr, address, 0, CU_MEM_ATTACH_SINGLE),
              "flags is CU_MEM_ATTACH_SINGLE, and the NULL stream stands for all streams; "),
      REFUSAL("cuStreamGetDevice", CUDA_ERROR_INVALID_VALUE,
              cuStreamGetDevice(stream.handle, nullptr), "device is NULL; "),
      REFUSAL("cudaStreamAddCallback", cudaErrorInvalidValue,
              cudaStreamAddCallback(stream.handle, nullptr, &number, 0), "callback is NULL; "),
  });
}

TEST_CASE("refusals of events", "[api]") {
  session();
  const NewStream stream;
  const NewEvent untimed(CU_EVENT_DISABLE_TIMING);
  const NewEvent event;
  const NewEvent recorded;
  WHERRY_TRY(cuEventRecord(recorded.handle, stream.handle));
  WHERRY_TRY(cuEventSynchronize(recorded.handle));
  WHERRY_TRY(cuCtxSetCurrent(session().context(1)));
  const NewStream other_stream;
  const NewEvent other;
  WHERRY_TRY(cuEventRecord(other.handle, other_stream.handle));
  WHERRY_TRY(cuEventSynchronize(other.handle));
  WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
  CUevent made = nullptr;
  float time = 0;
  check({
      REFUSAL("cuEventCreate", CUDA_ERROR_INVALID_VALUE, cuEventCreate(nullptr, 0),
              "phEvent is NULL; "),
      REFUSAL("cuEventCreate", CUDA_ERROR_INVALID_VALUE, cuEventCreate(&made, 0x10),
              "Flags is 0x10; pass only bits of 0x7"),
      REFUSAL("cuEventCreate", CUDA_ERROR_INVALID_VALUE,
              cuEventCreate(&made, CU_EVENT_INTERPROCESS),
              "Flags is 0x4: an event for other processes measures no time; add "),
      REFUSAL("cuEventDestroy", CUDA_ERROR_INVALID_HANDLE, cuEventDestroy(nullptr),
              "the event is NULL; pass one of cuEventCreate"),
      REFUSAL("cuEventQuery", CUDA_ERROR_INVALID_HANDLE, cuEventQuery(stale<CUevent>()),
              hex(&no_object) + " is no event; "),
      REFUSAL("cuEventRecord", CUDA_ERROR_INVALID_HANDLE,
              cuEventRecord(other.handle, stream.handle),
              "the event is of another context than the stream; "),
      REFUSAL("cuEventRecordWithFlags", CUDA_ERROR_INVALID_VALUE,
              cuEventRecordWithFlags(event.handle, stream.handle, 6),
              "flags is 0x6; pass only bits of 0x1"),
      REFUSAL("cuEventRecordWithFlags", CUDA_ERROR_INVALID_VALUE,
              cuEventRecordWithFlags(event.handle, stream.handle, CU_EVENT_RECORD_EXTERNAL),
              "flags is CU_EVENT_RECORD_EXTERNAL, which is only for a stream that is captured; "),
      REFUSAL("cuStreamWaitEvent", CUDA_ERROR_INVALID_HANDLE,
              cuStreamWaitEvent(stream.handle, nullptr, 0), "the event is NULL; "),
      REFUSAL("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE,
              cuStreamWaitEvent(stream.handle, event.handle, 2),
              "Flags is 0x2; pass only bits of 0x1"),
      REFUSAL("cuStreamWaitEvent", CUDA_ERROR_INVALID_VALUE,
              cuStreamWaitEvent(stream.handle, event.handle, CU_EVENT_WAIT_EXTERNAL),
              "flags is CU_EVENT_WAIT_EXTERNAL, which is only for a stream that is captured; "),
      REFUSAL("cuEventElapsedTime", CUDA_ERROR_INVALID_VALUE,
              cuEventElapsedTime(nullptr, recorded.handle, recorded.handle),
              "pMilliseconds is NULL; "),
      REFUSAL("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE,
              cuEventElapsedTime(&time, untimed.handle, recorded.handle),
              "the event " + hex(untimed.handle) + " measures no time; "),
      REFUSAL("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE,
              cuEventElapsedTime(&time, recorded.handle, event.handle),
              "the event " + hex(event.handle) + " was never recorded; "),
      REFUSAL("cuEventElapsedTime", CUDA_ERROR_INVALID_HANDLE,
              cuEventElapsedTime(&time, recorded.handle, other.handle),
              "the event " + hex(other.handle) + " is of another device than hStart; "),
  });
}

TEST_CASE("refusals of captures", "[api]") {
  session();
  const NewStream stream;
  const NewStream second;
  const NewEvent event;
  const NewEvent outside;
  WHERRY_TRY(cuEventRecord(outside.handle, second.handle));
  OwnGraph graph;
  CUstreamCaptureStatus status{};
  auto bad_mode = static_cast<CUstreamCaptureMode>(9);
  check({
      REFUSAL("cuStreamBeginCapture", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
              cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_GLOBAL),
              "the legacy default stream cannot be captured; "),
      REFUSAL("cuStreamBeginCapture", CUDA_ERROR_INVALID_VALUE,
              cuStreamBeginCapture(stream.handle, bad_mode), "mode is 9; pass a value of "),
      REFUSAL("cuStreamEndCapture", CUDA_ERROR_ILLEGAL_STATE,
              cuStreamEndCapture(stream.handle, &graph.handle), "the stream is not captured; "),
      REFUSAL("cuStreamEndCapture", CUDA_ERROR_INVALID_VALUE,
              cuStreamEndCapture(stream.handle, nullptr), "phGraph is NULL; "),
      REFUSAL("cuStreamIsCapturing", CUDA_ERROR_INVALID_VALUE,
              cuStreamIsCapturing(stream.handle, nullptr), "captureStatus is NULL; "),
      REFUSAL("cuThreadExchangeStreamCaptureMode", CUDA_ERROR_INVALID_VALUE,
              cuThreadExchangeStreamCaptureMode(&bad_mode), "mode is 9; "),
  });
  SECTION("in the captured stream") {
    const Capturing capture(stream.handle);
    check({
        REFUSAL("cuStreamBeginCapture", CUDA_ERROR_ILLEGAL_STATE,
                cuStreamBeginCapture(stream.handle, CU_STREAM_CAPTURE_MODE_GLOBAL),
                "the stream is captured already; "),
        REFUSAL("cuStreamIsCapturing", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                cuStreamIsCapturing(nullptr, &status),
                "the legacy default stream waits for a stream that is captured; "),
        REFUSAL("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                cuStreamWaitEvent(stream.handle, outside.handle, 0),
                "the event was not recorded in the stream's capture"),
        REFUSAL("cuStreamSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                cuStreamSynchronize(stream.handle), "the stream is captured, and the call "),
        REFUSAL("cuStreamSynchronize", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                cuStreamSynchronize(nullptr), "the legacy default stream waits for a stream "),
        REFUSAL("cuCtxSynchronize", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuCtxSynchronize(),
                "the call waits for all streams of the context"),
        REFUSAL("cuStreamEndCapture", CUDA_ERROR_STREAM_CAPTURE_INVALIDATED,
                cuStreamEndCapture(stream.handle, &graph.handle),
                "an earlier call that cannot be captured has ended the capture; "),
    });
  }
  SECTION("a mode that forbids calls") {
    const Capturing capture(stream.handle, CU_STREAM_CAPTURE_MODE_GLOBAL);
    CUdeviceptr memory = 0;
    check({REFUSAL("cuMemAlloc", CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, cuMemAlloc(&memory, page),
                   "the call may wait for other work, which the mode of a capture forbids")});
  }
  SECTION("another thread") {
    const Capturing capture(stream.handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
    std::thread([&] {
      WHERRY_TRY(cuCtxSetCurrent(session().context(0)));
      check({REFUSAL("cuStreamEndCapture", CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD,
                     cuStreamEndCapture(stream.handle, &graph.handle),
                     "another thread began the capture; ")});
    }).join();
  }
  SECTION("a stream that has joined") {
    const Capturing capture(stream.handle);
    WHERRY_TRY(cuEventRecord(event.handle, stream.handle));
    WHERRY_TRY(cuStreamWaitEvent(second.handle, event.handle, 0));
    WHERRY_TRY(cuLaunchHostFunc(
        second.handle, [](void*) {}, nullptr));
    check({
        REFUSAL("cuStreamEndCapture", CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                cuStreamEndCapture(stream.handle, &graph.handle), "another stream joined "),
        REFUSAL("cuStreamWaitEvent", CUDA_ERROR_CAPTURED_EVENT,
                cuStreamWaitEvent(stream.handle, event.handle, 0),
                "the event was recorded in a capture that has ended; "),
    });
  }
  SECTION("the end in a stream that has joined") {
    const Capturing capture(stream.handle);
    WHERRY_TRY(cuEventRecord(event.handle, stream.handle));
    WHERRY_TRY(cuStreamWaitEvent(second.handle, event.handle, 0));
    check({
        REFUSAL("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_IMPLICIT,
                cuStreamWaitEvent(nullptr, event.handle, 0), "the legacy default stream "),
        REFUSAL("cuStreamEndCapture", CUDA_ERROR_STREAM_CAPTURE_UNMATCHED,
                cuStreamEndCapture(second.handle, &graph.handle), "the stream only joined "),
        REFUSAL("cuEventQuery", CUDA_ERROR_CAPTURED_EVENT, cuEventQuery(event.handle),
                "the event was recorded in a capture, which is invalid now; "),
    });
  }
  SECTION("two captures") {
    const Capturing capture(stream.handle);
    WHERRY_TRY(cuEventRecord(event.handle, stream.handle));
    const Capturing other(second.handle);
    check({REFUSAL("cuStreamWaitEvent", CUDA_ERROR_STREAM_CAPTURE_MERGE,
                   cuStreamWaitEvent(second.handle, event.handle, 0),
                   "the stream and the event belong to two captures")});
  }
}

TEST_CASE("refusals of graphs", "[api]") {
  session();
  const NewStream stream;
  const NewGraph graph;
  const CUgraphNode first = graph.add();
  const CUgraphNode next = graph.add();
  WHERRY_TRY(cuGraphAddDependencies(graph.handle, &first, &next, nullptr, 1));
  OwnExec exec;
  WHERRY_TRY(cuGraphInstantiate(&exec.handle, graph.handle, 0));
  const NewGraph circle;
  const CUgraphNode ends[] = {circle.add(), circle.add()};
  const CUgraphNode reversed[] = {ends[1], ends[0]};
  WHERRY_TRY(cuGraphAddDependencies(circle.handle, ends, reversed, nullptr, 2));
  const NewGraph larger;
  larger.add();
  CUgraph made = nullptr;
  CUgraphNode node = nullptr;
  CUgraphExec made_exec = nullptr;
  std::size_t count = 1;
  const CUgraphNode twice[] = {first, first};
  CUgraphEdgeData edge{};
  edge.type = 1;
  CUDA_HOST_NODE_PARAMS host{};
  CUDA_KERNEL_NODE_PARAMS kernel{};
  CUDA_MEMSET_NODE_PARAMS fill{};
  CUDA_MEMCPY3D copy{};
  const CUcontext context = session().context(0);
  CUgraphExecUpdateResultInfo update{};
  const auto add_fill = [&] {
    return cuGraphAddMemsetNode(&node, graph.handle, nullptr, 0, &fill, context);
  };
  check({
      REFUSAL("cuGraphCreate", CUDA_ERROR_INVALID_VALUE, cuGraphCreate(nullptr, 0),
              "phGraph is NULL; "),
      REFUSAL("cuGraphCreate", CUDA_ERROR_INVALID_VALUE, cuGraphCreate(&made, 1),
              "flags is 0x1; pass 0"),
      REFUSAL("cuGraphDestroy", CUDA_ERROR_INVALID_HANDLE, cuGraphDestroy(nullptr),
              "the graph is NULL; pass one of cuGraphCreate"),
      REFUSAL("cuGraphClone", CUDA_ERROR_INVALID_HANDLE, cuGraphClone(&made, stale<CUgraph>()),
              hex(&no_object) + " is no graph; "),
      REFUSAL("cuGraphNodeFindInClone", CUDA_ERROR_INVALID_VALUE,
              cuGraphNodeFindInClone(&node, first, graph.handle),
              "hClonedGraph has no copy of the node " + hex(first) + "; "),
      REFUSAL("cuGraphAddDependencies", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddDependencies(graph.handle, &first, &next, nullptr, 1),
              "one of the 1 dependencies exists already"),
      REFUSAL("cuGraphAddDependencies", CUDA_ERROR_NOT_SUPPORTED,
              cuGraphAddDependencies(graph.handle, &next, &first, &edge, 1),
              "edgeData has values other than 0"),
      REFUSAL("cuGraphGetNodes", CUDA_ERROR_INVALID_VALUE,
              cuGraphGetNodes(graph.handle, nullptr, nullptr), "numNodes is NULL; "),
      REFUSAL("cuGraphGetEdges", CUDA_ERROR_INVALID_VALUE,
              cuGraphGetEdges(graph.handle, &node, nullptr, nullptr, &count),
              "one of from and to is NULL; pass both or none"),
      REFUSAL("cuGraphAddEmptyNode", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddEmptyNode(nullptr, graph.handle, nullptr, 0), "phGraphNode is NULL; "),
      REFUSAL("cuGraphAddEmptyNode", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddEmptyNode(&node, graph.handle, nullptr, 2), "dependencies is NULL; "),
      REFUSAL("cuGraphAddEmptyNode", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddEmptyNode(&node, graph.handle, twice, 2),
              "one of the 2 dependencies is no node of the graph, or is there twice; "),
      REFUSAL("cuGraphAddHostNode", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddHostNode(&node, graph.handle, nullptr, 0, &host),
              "nodeParams->fn is NULL; "),
      REFUSAL("cuGraphAddKernelNode", CUDA_ERROR_INVALID_HANDLE,
              cuGraphAddKernelNode(&node, graph.handle, nullptr, 0, &kernel),
              "0x0 is no function of the context and no kernel of a library; "),
      REFUSAL("cuGraphAddMemcpyNode", CUDA_ERROR_INVALID_CONTEXT,
              cuGraphAddMemcpyNode(&node, graph.handle, nullptr, 0, &copy, nullptr),
              "the context is NULL; "),
      REFUSAL("cuGraphAddMemcpyNode", CUDA_ERROR_INVALID_VALUE,
              cuGraphAddMemcpyNode(&node, graph.handle, nullptr, 0, &copy, context),
              "WidthInBytes, Height and Depth are 0, 0 and 0; "),
      REFUSAL("cuGraphAddMemsetNode", CUDA_ERROR_INVALID_VALUE, add_fill(),
              "elementSize is 0; pass 1, 2 or 4"),
      REFUSAL("cuGraphAddMemsetNode", CUDA_ERROR_INVALID_VALUE, (fill.elementSize = 4, add_fill()),
              "width is 0 and height 0; "),
      REFUSAL("cuGraphAddMemsetNode", CUDA_ERROR_INVALID_VALUE,
              (fill.width = fill.height = 2, add_fill()),
              "pitch is 0; pass 8 to 2147483647 for rows of 8 bytes"),
      REFUSAL("cuGraphAddEventRecordNode", CUDA_ERROR_INVALID_HANDLE,
              cuGraphAddEventRecordNode(&node, graph.handle, nullptr, 0, nullptr),
              "the event is NULL; "),
      REFUSAL("cuGraphAddChildGraphNode", CUDA_ERROR_INVALID_HANDLE,
              cuGraphAddChildGraphNode(&node, graph.handle, nullptr, 0, nullptr),
              "the graph is NULL; "),
      REFUSAL("cuGraphNodeGetType", CUDA_ERROR_INVALID_HANDLE,
              cuGraphNodeGetType(stale<CUgraphNode>(), nullptr),
              hex(&no_object) + " is no node of a graph; "),
      REFUSAL("cuGraphKernelNodeGetParams", CUDA_ERROR_INVALID_VALUE,
              cuGraphKernelNodeGetParams(first, &kernel),
              "the node has the type " + std::to_string(CU_GRAPH_NODE_TYPE_EMPTY) + "; "),
      REFUSAL("cuGraphInstantiateWithFlags", CUDA_ERROR_INVALID_VALUE,
              cuGraphInstantiateWithFlags(&made_exec, circle.handle, 0),
              "nodes of the graph depend on each other in a circle; "),
      REFUSAL("cuGraphInstantiateWithFlags", CUDA_ERROR_INVALID_VALUE,
              cuGraphInstantiateWithFlags(&made_exec, graph.handle, 0x100),
              "flags is 0x100; pass only bits of 0xf"),
      REFUSAL("cuGraphInstantiateWithFlags", CUDA_ERROR_NOT_SUPPORTED,
              cuGraphInstantiateWithFlags(&made_exec, graph.handle,
                                          CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH),
              "flags has CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH"),
      REFUSAL("cuGraphLaunch", CUDA_ERROR_INVALID_HANDLE, cuGraphLaunch(nullptr, stream.handle),
              "the executable graph is NULL; "),
      REFUSAL("cuGraphLaunch", CUDA_ERROR_INVALID_HANDLE,
              cuGraphLaunch(exec.handle, stale<CUstream>()), hex(&no_object) + " is no stream; "),
      REFUSAL("cuGraphExecUpdate", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
              cuGraphExecUpdate(exec.handle, larger.handle, &update),
              "the graph has other nodes or dependencies than before; "),
      REFUSAL("cuGraphExecUpdate", CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
              cuGraphExecUpdate(exec.handle, circle.handle, &update),
              "nodes of the graph depend on each other in a circle; "),
      REFUSAL("cudaGraphAddMemcpyNode1D", cudaErrorInvalidMemcpyDirection,
              cudaGraphAddMemcpyNode1D(&node, graph.handle, nullptr, 0, nullptr, nullptr, 1,
                                       static_cast<cudaMemcpyKind>(9)),
              "kind is 9; "),
  });
}

TEST_CASE("refusals of memory pools", "[api]") {
  session();
  const NewStream stream;
  CUmemPoolProps small = pool_of_device(0);
  small.maxSize = block;
  const NewPool pool(small);
  const NewPool other(pool_of_device(1));
  CUmemoryPool initial = nullptr;
  WHERRY_TRY(cuDeviceGetDefaultMemPool(&initial, 0));
  const Managed<char> managed(page);
  const auto address = reinterpret_cast<CUdeviceptr>(managed.data());
  CUmemoryPool made = nullptr;
  CUdeviceptr memory = 0;
  cuuint64_t number = 7;
  CUmemAccess_flags flags{};
  const auto create = [&](auto change) {
    CUmemPoolProps properties = pool_of_device(0);
    change(properties);
    return cuMemPoolCreate(&made, &properties);
  };
  const auto set_access = [&](CUmemLocation location, int wanted) {
    const CUmemAccessDesc access{location, static_cast<CUmemAccess_flags>(wanted)};
    return cuMemPoolSetAccess(pool.handle, &access, 1);
  };
  CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
  check({
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(nullptr, &small),
              "pool is NULL; "),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_INVALID_VALUE, cuMemPoolCreate(&made, nullptr),
              "poolProps is NULL; "),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_INVALID_VALUE,
              create([](CUmemPoolProps& wrong) { wrong.usage = 1; }),
              "win32SecurityAttributes, usage or reserved of poolProps is not 0; "),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_INVALID_VALUE, create([](CUmemPoolProps& wrong) {
                wrong.allocType = CU_MEM_ALLOCATION_TYPE_INVALID;
              }),
              "allocType is 0; pass CU_MEM_ALLOCATION_TYPE_PINNED"),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_NOT_SUPPORTED, create([](CUmemPoolProps& wrong) {
                wrong.allocType = CU_MEM_ALLOCATION_TYPE_MANAGED;
              }),
              "there are no pools of managed memory; "),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_NOT_SUPPORTED,
              create([&](CUmemPoolProps& wrong) { wrong.location = host; }),
              "there are no pools of the host's memory; "),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_INVALID_DEVICE,
              create([](CUmemPoolProps& wrong) { wrong.location.id = 5; }),
              "there is no device 5; pass 0 to 1"),
      REFUSAL("cuMemPoolCreate", CUDA_ERROR_NOT_SUPPORTED,
              create([](CUmemPoolProps& wrong) { wrong.handleTypes = CU_MEM_HANDLE_TYPE_FABRIC; }),
              "handleTypes is 0x8; pass CU_MEM_HANDLE_TYPE_NONE"),
      REFUSAL("cuMemPoolDestroy", CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(initial),
              "the pool is a device's default pool"),
      REFUSAL("cuMemPoolDestroy", CUDA_ERROR_INVALID_VALUE, cuMemPoolDestroy(nullptr),
              "the memory pool is NULL; pass one of cuMemPoolCreate"),
      REFUSAL("cuMemPoolTrimTo", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolTrimTo(stale<CUmemoryPool>(), 0), hex(&no_object) + " is no memory pool; "),
      REFUSAL("cuDeviceSetMemPool", CUDA_ERROR_INVALID_VALUE, cuDeviceSetMemPool(0, other.handle),
              "the pool is of device 1, not of device 0; "),
      REFUSAL("cuDeviceGetMemPool", CUDA_ERROR_INVALID_DEVICE, cuDeviceGetMemPool(&made, 9),
              "there is no device 9; "),
      REFUSAL("cuMemAllocAsync", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocAsync(nullptr, page, stream.handle), "dptr is NULL; "),
      REFUSAL("cuMemAllocAsync", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocAsync(&memory, 0, stream.handle), "bytesize is 0; pass at least 1"),
      REFUSAL("cuMemAllocAsync", CUDA_ERROR_OUT_OF_MEMORY,
              cuMemAllocAsync(&memory, std::size_t{1} << 40, stream.handle),
              "device 0 has no room for 1099511627776 bytes; "),
      REFUSAL("cuMemAllocFromPoolAsync", CUDA_ERROR_OUT_OF_MEMORY,
              cuMemAllocFromPoolAsync(&memory, 2 * block, pool.handle, stream.handle),
              "the pool, which holds at most 2097152 bytes, or its device 0 has no room for "
              "4194304 bytes; "),
      REFUSAL("cuMemAllocFromPoolAsync", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocFromPoolAsync(&memory, page, nullptr, stream.handle),
              "the memory pool is NULL; "),
      REFUSAL("cuMemFreeAsync", CUDA_ERROR_INVALID_VALUE, cuMemFreeAsync(address, stream.handle),
              hex(address) + " is managed memory, which no stream frees; use cuMemFree"),
      REFUSAL("cuMemPoolSetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolSetAttribute(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, &number),
              "value is 7, and the highest amount can only be reset; pass 0"),
      REFUSAL("cuMemPoolSetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolSetAttribute(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &number),
              "attr 7 is the present amount, which cannot be set; "),
      REFUSAL("cuMemPoolGetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolGetAttribute(pool.handle, static_cast<CUmemPool_attribute>(99), &number),
              "attr is 99; pass a value of CUmemPool_attribute"),
      REFUSAL("cuMemPoolGetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolGetAttribute(pool.handle, CU_MEMPOOL_ATTR_USED_MEM_HIGH, nullptr),
              "value is NULL; "),
      REFUSAL("cuMemPoolSetAccess", CUDA_ERROR_INVALID_VALUE,
              set_access(host, CU_MEM_ACCESS_FLAGS_PROT_READWRITE),
              "the location's type is " + std::to_string(CU_MEM_LOCATION_TYPE_HOST) + "; "),
      REFUSAL("cuMemPoolSetAccess", CUDA_ERROR_INVALID_VALUE,
              set_access({CU_MEM_LOCATION_TYPE_DEVICE, 1}, CU_MEM_ACCESS_FLAGS_PROT_READ),
              "flags of map[0] is 1; "),
      REFUSAL("cuMemPoolSetAccess", CUDA_ERROR_INVALID_VALUE,
              set_access({CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_NONE),
              "device 0 is the pool's own, which always has access; "),
      REFUSAL("cuMemPoolGetAccess", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolGetAccess(&flags, pool.handle, nullptr), "location is NULL; "),
  });
}

TEST_CASE("refusals of memory, pools and events for other processes", "[api]") {
  session();
  const NewStream stream;
  const NewPool own;
  CUmemPoolProps shared = pool_of_device(0);
  shared.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const NewPool exported(shared);
  CUdeviceptr pooled = 0;
  WHERRY_TRY(cuMemAllocFromPoolAsync(&pooled, page, exported.handle, stream.handle));
  const DeviceMemory device;
  const Managed<char> managed(page);
  const auto address = reinterpret_cast<CUdeviceptr>(managed.data());
  const NewEvent event;
  constexpr auto descriptors = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  int descriptor = -1;
  CUmemoryPool pool = nullptr;
  CUmemPoolPtrExportData data{};
  CUipcMemHandle memory{};
  CUipcMemHandle none{};
  CUipcEventHandle event_handle{};
  CUdeviceptr opened = 0;
  CUevent opened_event = nullptr;
  WHERRY_TRY(cuIpcGetMemHandle(&memory, device.handle));
  check({
      REFUSAL("cuMemPoolExportToShareableHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportToShareableHandle(&descriptor, own.handle, descriptors, 0),
              "the pool is for this process only; "),
      REFUSAL("cuMemPoolExportToShareableHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportToShareableHandle(&descriptor, exported.handle,
                                               CU_MEM_HANDLE_TYPE_FABRIC, 0),
              "the type of handle is 0x8; "),
      REFUSAL("cuMemPoolExportToShareableHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportToShareableHandle(&descriptor, exported.handle, descriptors, 1),
              "flags is 0x1; pass 0"),
      REFUSAL("cuMemPoolImportFromShareableHandle", CUDA_ERROR_NOT_SUPPORTED,
              cuMemPoolImportFromShareableHandle(&pool, nullptr, CU_MEM_HANDLE_TYPE_FABRIC, 0),
              "the type of handle is 0x8; "),
      REFUSAL(
          "cuMemPoolImportFromShareableHandle", CUDA_ERROR_INVALID_VALUE,
          cuMemPoolImportFromShareableHandle(&pool, reinterpret_cast<void*>(-1), descriptors, 0),
          "the descriptor -1 is none of cuMemPoolExportToShareableHandle; "),
      REFUSAL("cuMemPoolExportPointer", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportPointer(&data, address),
              "no memory of a pool (cuMemAllocAsync) is at " + hex(address) + "; "),
      REFUSAL("cuMemPoolExportPointer", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportPointer(&data, pooled),
              "the pool of the memory at " + hex(pooled) + " is not shared; "),
      REFUSAL("cuMemPoolExportPointer", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolExportPointer(&data, pooled + 64),
              hex(pooled + 64) + " lies inside the allocation " + hex(pooled) + "+4096; "),
      REFUSAL("cuMemPoolImportPointer", CUDA_ERROR_INVALID_VALUE,
              cuMemPoolImportPointer(&opened, own.handle, &data),
              hex(own.handle) + " is no imported pool; "),
      REFUSAL("cuIpcGetMemHandle", CUDA_ERROR_INVALID_VALUE, cuIpcGetMemHandle(&none, address),
              "no memory of a device (cuMemAlloc) is at " + hex(address) + "; "),
      REFUSAL("cuIpcOpenMemHandle", CUDA_ERROR_INVALID_VALUE,
              cuIpcOpenMemHandle(&opened, none, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              "the handle names no object of this kind that a process shares; "),
      REFUSAL("cuIpcOpenMemHandle", CUDA_ERROR_INVALID_CONTEXT,
              cuIpcOpenMemHandle(&opened, memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
              "the handle is of this process; "),
      REFUSAL("cuIpcOpenMemHandle", CUDA_ERROR_INVALID_VALUE,
              cuIpcOpenMemHandle(&opened, memory, 0),
              "Flags is 0x0; pass CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS"),
      REFUSAL("cuIpcCloseMemHandle", CUDA_ERROR_INVALID_VALUE, cuIpcCloseMemHandle(device.handle),
              "no memory of cuIpcOpenMemHandle begins at " + hex(device.handle) + "; "),
      REFUSAL("cuIpcGetEventHandle", CUDA_ERROR_INVALID_HANDLE,
              cuIpcGetEventHandle(&event_handle, event.handle),
              "the event is for this process only; "),
      REFUSAL("cuIpcOpenEventHandle", CUDA_ERROR_MAP_FAILED,
              cuIpcOpenEventHandle(&opened_event, event_handle),
              "the handle names no object of this kind that a process shares; "),
  });
  WHERRY_TRY(cuMemFree(pooled));
}

TEST_CASE("refusals of virtual memory", "[api]") {
  session();
  const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, 0};
  const CUmemAllocationProp properties = memory_of(device);
  CUmemGenericAllocationHandle memory = 0;
  WHERRY_TRY(cuMemCreate(&memory, block, &properties, 0));
  CUdeviceptr place = 0;
  WHERRY_TRY(cuMemAddressReserve(&place, 2 * block, 0, 0, 0));
  CUmemGenericAllocationHandle made = 0;
  CUdeviceptr reserved = 0;
  std::size_t granularity = 0;
  unsigned long long access = 0;
  int descriptor = -1;
  CUmemAllocationProp told{};
  const auto create = [&](auto change) {
    CUmemAllocationProp wrong = properties;
    change(wrong);
    return cuMemCreate(&made, block, &wrong, 0);
  };
  const auto set_access = [&](CUmemLocation location, int flags, std::size_t bytes = block) {
    const CUmemAccessDesc wanted{location, static_cast<CUmemAccess_flags>(flags)};
    return cuMemSetAccess(place, bytes, &wanted, 1);
  };
  constexpr int writing = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const std::string whole = hex(place) + "+" + std::to_string(2 * block);
  const std::string half = hex(place) + "+" + std::to_string(block);
  check({
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_INVALID_VALUE,
              cuMemAddressReserve(nullptr, block, 0, 0, 0), "ptr is NULL; "),
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_INVALID_VALUE,
              cuMemAddressReserve(&reserved, page, 0, 0, 0),
              "size is 0x1000; pass a multiple of 2097152 that is not 0"),
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_INVALID_VALUE,
              cuMemAddressReserve(&reserved, block, 3, 0, 0),
              "alignment is 3; pass 0 or a power of two"),
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_INVALID_VALUE,
              cuMemAddressReserve(&reserved, block, 0, 7, 0),
              "addr is 0x7; pass 0 or a multiple of 4096"),
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_INVALID_VALUE,
              cuMemAddressReserve(&reserved, block, 0, 0, 1), "flags is 0x1; pass 0"),
      REFUSAL("cuMemAddressReserve", CUDA_ERROR_OUT_OF_MEMORY,
              cuMemAddressReserve(&reserved, std::size_t{1} << 60, 0, 0, 0),
              "the devices have no addresses left for 1152921504606846976 bytes; "),
      REFUSAL("cuMemAddressFree", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(0x1000, block),
              "no addresses are reserved at 0x1000; "),
      REFUSAL("cuMemAddressFree", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(place, block),
              "the range " + half + " is not the whole reservation " + whole + "; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE, cuMemCreate(&made, block, nullptr, 0),
              "prop is NULL; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE, cuMemCreate(&made, 0, &properties, 0),
              "size is 0x0; pass a multiple of 2097152"),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE,
              create([](auto& wrong) { wrong.type = CU_MEM_ALLOCATION_TYPE_INVALID; }),
              "type of prop is 0; pass CU_MEM_ALLOCATION_TYPE_PINNED"),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE,
              create([](auto& wrong) { wrong.allocFlags.usage = 1; }),
              "win32HandleMetaData or allocFlags of prop has an unknown value; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_NOT_PERMITTED,
              create([](auto& wrong) { wrong.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC; }),
              "requestedHandleTypes is 0x8; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_DEVICE,
              create([](auto& wrong) { wrong.location.id = 6; }),
              "the location is device 6, which does not exist; pass 0 to 1"),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE, create([](auto& wrong) {
                wrong.location.type = CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
              }),
              "the location's type is CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_INVALID_VALUE, create([](auto& wrong) {
                wrong.location.type = CU_MEM_LOCATION_TYPE_HOST;
                wrong.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
              }),
              "memory of CU_MEM_LOCATION_TYPE_HOST cannot be exported; "),
      REFUSAL("cuMemCreate", CUDA_ERROR_OUT_OF_MEMORY,
              cuMemCreate(&made, std::size_t{1} << 40, &properties, 0),
              "device 0 has no room for 1099511627776 bytes; "),
      REFUSAL("cuMemRelease", CUDA_ERROR_INVALID_VALUE, cuMemRelease(0x77),
              "0x77 is no handle of memory; pass one of cuMemCreate"),
      REFUSAL("cuMemRetainAllocationHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemRetainAllocationHandle(&made, reinterpret_cast<void*>(place)),
              "no memory is mapped at " + hex(place) + "; "),
      REFUSAL("cuMemGetAllocationGranularity", CUDA_ERROR_INVALID_VALUE,
              cuMemGetAllocationGranularity(&granularity, &properties,
                                            static_cast<CUmemAllocationGranularity_flags>(5)),
              "option is 5; pass a value of CUmemAllocationGranularity_flags"),
      REFUSAL("cuMemGetAllocationPropertiesFromHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemGetAllocationPropertiesFromHandle(&told, 0), "the handle of memory is NULL; "),
      REFUSAL("cuMemMap", CUDA_ERROR_INVALID_VALUE, cuMemMap(place, block, 0, 0x77, 0),
              "0x77 is no handle of memory; "),
      REFUSAL("cuMemMap", CUDA_ERROR_INVALID_VALUE, cuMemMap(place + page, block, 0, memory, 0),
              "ptr is " + hex(place + page) + "; pass a multiple of 2097152"),
      REFUSAL("cuMemMap", CUDA_ERROR_NOT_SUPPORTED, cuMemMap(place, 2 * block, 0, memory, 0),
              "size is 4194304 and offset 0, and memory is mapped only as a whole; "),
      REFUSAL("cuMemMap", CUDA_ERROR_INVALID_VALUE, cuMemMap(16 * block, block, 0, memory, 0),
              "no addresses are reserved at 0x2000000; "),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE, set_access(device, writing),
              "the range " + half + " does not consist of whole mappings; "),
      REFUSAL("cuMemGetAccess", CUDA_ERROR_INVALID_VALUE, cuMemGetAccess(&access, &device, place),
              "no memory is mapped at " + hex(place) + "; "),
      REFUSAL("cuMemExportToShareableHandle", CUDA_ERROR_INVALID_VALUE,
              cuMemExportToShareableHandle(&descriptor, memory,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
              "the memory is for this process only; "),
      REFUSAL(
          "cuMemImportFromShareableHandle", CUDA_ERROR_INVALID_VALUE,
          cuMemImportFromShareableHandle(&made, nullptr, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR),
          "the descriptor 0 is none of cuMemExportToShareableHandle; "),
  });
  WHERRY_TRY(cuMemMap(place, block, 0, memory, 0));
  check({
      REFUSAL("cuMemMap", CUDA_ERROR_INVALID_VALUE, cuMemMap(place, block, 0, memory, 0),
              "memory is mapped in the range " + half + "; "),
      REFUSAL("cuMemAddressFree", CUDA_ERROR_INVALID_VALUE, cuMemAddressFree(place, 2 * block),
              "memory is mapped in the range " + whole + "; "),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE, set_access(device, 2),
              "flags of desc[0] is 2; "),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE,
              set_access({CU_MEM_LOCATION_TYPE_DEVICE, 8}, writing),
              "there is no device 8; pass 0 to 1"),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_NOT_SUPPORTED,
              set_access({CU_MEM_LOCATION_TYPE_HOST, 0}, writing),
              "the host accesses only memory that was created on it"),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE,
              set_access({static_cast<CUmemLocationType>(44), 0}, writing),
              "the location's type is 44; "),
      REFUSAL("cuMemSetAccess", CUDA_ERROR_INVALID_VALUE, cuMemSetAccess(place, block, nullptr, 1),
              "desc is NULL; "),
      REFUSAL("cuMemUnmap", CUDA_ERROR_INVALID_VALUE, cuMemUnmap(place, page),
              "size is 0x1000; pass a multiple of 2097152"),
  });
  WHERRY_TRY(cuMemUnmap(place, block));
  WHERRY_TRY(cuMemAddressFree(place, 2 * block));
  WHERRY_TRY(cuMemRelease(memory));
}

TEST_CASE("refusals of contexts", "[api]") {
  session();
  CUcontext context = nullptr;
  int active = 0;
  std::size_t size = 0;
  unsigned long long id = 0;
  CUexecAffinityParam affinity{};
  CUctxCreateParams parameters{&affinity, 1, nullptr};
  const CUcontext primary = session().context(0);
  check({
      REFUSAL("cuCtxCreate", CUDA_ERROR_INVALID_VALUE, cuCtxCreate(&context, nullptr, 0x3, 0),
              "flags is 0x3; pass values of CUctx_flags"),
      REFUSAL("cuCtxCreate", CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
              cuCtxCreate(&context, &parameters, 0, 0), "a context always has its whole device; "),
      REFUSAL("cuCtxDestroy", CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(primary),
              hex(primary) + " is a device's primary context; "),
      REFUSAL("cuCtxDestroy", CUDA_ERROR_INVALID_CONTEXT, cuCtxDestroy(nullptr),
              "the context is NULL; "),
      REFUSAL("cuCtxSetCurrent", CUDA_ERROR_INVALID_CONTEXT, cuCtxSetCurrent(stale<CUcontext>()),
              hex(&no_object) + " is no context; "),
      REFUSAL("cuDevicePrimaryCtxGetState", CUDA_ERROR_INVALID_VALUE,
              cuDevicePrimaryCtxGetState(0, nullptr, &active), "flags is NULL; "),
      REFUSAL("cuDevicePrimaryCtxSetFlags", CUDA_ERROR_INVALID_VALUE,
              cuDevicePrimaryCtxSetFlags(0, 0x1000), "flags is 0x1000; "),
      REFUSAL("cuCtxGetLimit", CUDA_ERROR_INVALID_VALUE,
              cuCtxGetLimit(&size, static_cast<CUlimit>(88)),
              "limit is 88; pass a value of CUlimit"),
      REFUSAL("cuCtxSetLimit", CUDA_ERROR_UNSUPPORTED_LIMIT,
              cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 1), "limit 6 does not exist here; "),
      REFUSAL("cuCtxSetCacheConfig", CUDA_ERROR_INVALID_VALUE,
              cuCtxSetCacheConfig(static_cast<CUfunc_cache>(7)), "config is 7; "),
      REFUSAL("cuCtxGetFlags", CUDA_ERROR_INVALID_VALUE, cuCtxGetFlags(nullptr), "flags is NULL; "),
      REFUSAL("cuCtxGetId", CUDA_ERROR_INVALID_CONTEXT, cuCtxGetId(stale<CUcontext>(), &id),
              hex(&no_object) + " is no context; "),
      REFUSAL("cuCtxDetach", CUDA_ERROR_INVALID_CONTEXT, cuCtxDetach(primary),
              hex(primary) + " is a device's primary context; "),
      REFUSAL("cuCtxEnablePeerAccess", CUDA_ERROR_INVALID_CONTEXT,
              cuCtxEnablePeerAccess(primary, 0), "the context is the current one"),
      REFUSAL("cuCtxEnablePeerAccess", CUDA_ERROR_INVALID_VALUE,
              cuCtxEnablePeerAccess(session().context(1), 2), "Flags is 0x2; pass 0"),
      REFUSAL("cuCtxDisablePeerAccess", CUDA_ERROR_PEER_ACCESS_NOT_ENABLED,
              cuCtxDisablePeerAccess(session().context(1)),
              "the current context has no access to device 1; "),
      REFUSAL("cudaDeviceEnablePeerAccess", cudaErrorInvalidDevice,
              cudaDeviceEnablePeerAccess(0, 0), "the context is the current one"),
  });
  WHERRY_TRY(cuCtxEnablePeerAccess(session().context(1), 0));
  check({REFUSAL("cuCtxEnablePeerAccess", CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED,
                 cuCtxEnablePeerAccess(session().context(1), 0),
                 "the current context has access to device 1 already; ")});
  WHERRY_TRY(cuCtxDisablePeerAccess(session().context(1)));
}

TEST_CASE("refusals of devices and of lookups", "[api]") {
  session();
  CUdevice device = 0;
  int value = 0;
  char text[64];
  void* function = nullptr;
  const void* table = nullptr;
  CUuuid id{};
  check({
      REFUSAL("cuDeviceGet", CUDA_ERROR_INVALID_DEVICE, cuDeviceGet(&device, 4),
              "there is no device 4; pass 0 to 1"),
      REFUSAL("cuDeviceGetName", CUDA_ERROR_INVALID_VALUE, cuDeviceGetName(text, 0, 0),
              "len is 0; "),
      REFUSAL("cuDeviceGetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuDeviceGetAttribute(&value, static_cast<CUdevice_attribute>(9999), 0),
              "attrib is 9999; pass a value of CUdevice_attribute"),
      REFUSAL("cuDeviceGetPCIBusId", CUDA_ERROR_INVALID_VALUE, cuDeviceGetPCIBusId(text, 4, 0),
              "len is 4, and the bus id has 12 characters; pass 13"),
      REFUSAL("cuDeviceGetByPCIBusId", CUDA_ERROR_INVALID_DEVICE,
              cuDeviceGetByPCIBusId(&device, "ff:1f.0"), "no device has the bus id ff:1f.0; "),
      REFUSAL("cuDeviceCanAccessPeer", CUDA_ERROR_INVALID_DEVICE,
              cuDeviceCanAccessPeer(&value, 0, 3), "there is no device 3; "),
      REFUSAL("cuDeviceGetP2PAttribute", CUDA_ERROR_INVALID_DEVICE,
              cuDeviceGetP2PAttribute(&value, CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED, 1, 1),
              "srcDevice and dstDevice are both 1; "),
      REFUSAL("cuGetProcAddress", CUDA_ERROR_INVALID_VALUE,
              cuGetProcAddress("", &function, 12000, 0, nullptr), "symbol is empty; "),
      REFUSAL("cuGetProcAddress", CUDA_ERROR_INVALID_VALUE,
              cuGetProcAddress("cuInit", &function, 12000, 3, nullptr),
              "flags has both CU_GET_PROC_ADDRESS_LEGACY_STREAM"),
      REFUSAL("cuGetExportTable", CUDA_ERROR_NOT_FOUND, cuGetExportTable(&table, &id),
              "there are no tables of undocumented functions; "),
      REFUSAL("cudaSetDevice", cudaErrorInvalidDevice, cudaSetDevice(5),
              "there is no device 5; pass 0 to 1"),
      REFUSAL("cudaInitDevice", cudaErrorInvalidValue, cudaInitDevice(0, 0, 8),
              "flags is 0x8; pass only bits of 0x1"),
      REFUSAL("cudaRuntimeGetVersion", cudaErrorInvalidValue, cudaRuntimeGetVersion(nullptr),
              "runtimeVersion is NULL; "),
  });
  cudaGetLastError();
}

TEST_CASE("refusals of kernels and libraries", "[api]") {
  session();
  cudaKernel_t kernel = nullptr;
  REQUIRE(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&refused_kernel)) == cudaSuccess);
  CUlibrary library = nullptr;
  WHERRY_TRY(cuKernelGetLibrary(&library, kernel));
  const auto as_function = reinterpret_cast<CUfunction>(kernel);
  int number = 0;
  std::size_t size = 0;
  void* function = nullptr;
  CUkernel found = nullptr;
  cudaLaunchConfig_t config{};
  config.dynamicSmemBytes = std::size_t{1} << 33;
  const auto unknown = static_cast<CUfunction_attribute>(99);
  check({
      REFUSAL("cuFuncGetAttribute", CUDA_ERROR_INVALID_HANDLE,
              cuFuncGetAttribute(&number, unknown, stale<CUfunction>()),
              hex(&no_object) + " is no function; pass one of cuModuleGetFunction"),
      REFUSAL("cuModuleUnload", CUDA_ERROR_INVALID_HANDLE, cuModuleUnload(nullptr),
              "the module is NULL; pass one of cuModuleLoad"),
      REFUSAL("cuLibraryUnload", CUDA_ERROR_INVALID_HANDLE, cuLibraryUnload(nullptr),
              "the library is NULL; "),
      REFUSAL("cuLibraryGetKernel", CUDA_ERROR_NOT_FOUND,
              cuLibraryGetKernel(&found, library, "no_such_kernel"), ""),
      REFUSAL("cuLibraryGetUnifiedFunction", CUDA_ERROR_NOT_FOUND,
              cuLibraryGetUnifiedFunction(&function, library, "no_such_function"), ""),
      REFUSAL("cuKernelGetFunction", CUDA_ERROR_INVALID_VALUE, cuKernelGetFunction(nullptr, kernel),
              "pFunc is NULL; "),
      REFUSAL("cuKernelGetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuKernelGetAttribute(&number, unknown, kernel, 0),
              "attrib is 99; pass a value of CUfunction_attribute"),
      REFUSAL("cuKernelSetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_NUM_REGS, 1, kernel, 0),
              "attrib 4 cannot be set; "),
      REFUSAL("cuKernelSetAttribute", CUDA_ERROR_INVALID_VALUE,
              cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, -1, kernel, 0),
              "value is -1; pass a number of bytes"),
      REFUSAL("cuKernelSetCacheConfig", CUDA_ERROR_INVALID_VALUE,
              cuKernelSetCacheConfig(kernel, static_cast<CUfunc_cache>(9), 0), "config is 9; "),
      REFUSAL("cuKernelGetParamInfo", CUDA_ERROR_INVALID_VALUE,
              cuKernelGetParamInfo(kernel, 1, &size, nullptr),
              "paramIndex is 1, and the kernel declares 1 parameters; "),
      REFUSAL("cuOccupancyMaxActiveBlocksPerMultiprocessor", CUDA_ERROR_INVALID_HANDLE,
              cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, nullptr, 1, 0),
              "0x0 is no function of the context and no kernel of a library; "),
      REFUSAL("cuOccupancyMaxActiveBlocksPerMultiprocessor", CUDA_ERROR_INVALID_VALUE,
              cuOccupancyMaxActiveBlocksPerMultiprocessor(&number, as_function, 0, 0),
              "blockSize is 0; pass at least 1"),
      REFUSAL("cuOccupancyMaxPotentialBlockSizeWithFlags", CUDA_ERROR_INVALID_VALUE,
              cuOccupancyMaxPotentialBlockSizeWithFlags(&number, &number, as_function, nullptr, 0,
                                                        0, 8),
              "flags is 0x8; pass only bits of 0x1"),
      REFUSAL("cuOccupancyAvailableDynamicSMemPerBlock", CUDA_ERROR_INVALID_VALUE,
              cuOccupancyAvailableDynamicSMemPerBlock(&size, as_function, 1, 0),
              "a multiprocessor does not run 1 blocks of 0 threads; "),
      REFUSAL("cudaLaunchKernelExC", cudaErrorInvalidValue,
              cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(&refused_kernel), nullptr),
              "dynamicSmemBytes is 8589934592; pass at most 4294967295"),
  });
  cudaGetLastError();
}

TEST_CASE("refusals of rows, boxes and symbols", "[api]") {
  session();
  std::vector<char> bytes(64);
  CUdeviceptr memory = 0;
  std::size_t pitch = 0;
  cudaMemcpy3DParms box{};
  box.kind = cudaMemcpyHostToHost;
  box.srcPtr = {bytes.data(), 8, 8, 1};
  box.dstPtr = {bytes.data() + 32, 8, 8, 1};
  box.extent = {4, 2, 2};
  cudaMemcpy3DParms far = box;
  far.srcPos = {~std::size_t{0}, 0, 0};
  far.extent.depth = 1;
  void* pointer = nullptr;
  check({
      REFUSAL("cuMemAllocPitch", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocPitch(&memory, nullptr, 8, 8, 4), "pPitch is NULL; "),
      REFUSAL("cuMemAllocPitch", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocPitch(&memory, &pitch, 0, 8, 4), "WidthInBytes is 0; pass 1 to 2147483647"),
      REFUSAL("cuMemAllocPitch", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocPitch(&memory, &pitch, 8, 0, 4), "Height is 0; pass at least 1"),
      REFUSAL("cuMemAllocPitch", CUDA_ERROR_INVALID_VALUE,
              cuMemAllocPitch(&memory, &pitch, 8, 8, 3), "ElementSizeBytes is 3; pass 4, 8 or 16"),
      REFUSAL("cuMemAllocPitch", CUDA_ERROR_OUT_OF_MEMORY,
              cuMemAllocPitch(&memory, &pitch, 8, std::size_t{1} << 60, 4),
              "1152921504606846976 rows with a pitch of 512 bytes are more than 2^64 bytes; "),
      REFUSAL("cudaMallocPitch", cudaErrorInvalidValue, cudaMallocPitch(&pointer, nullptr, 8, 8),
              "pitch is NULL; "),
      REFUSAL("cudaMemcpy2D", cudaErrorInvalidPitchValue,
              cudaMemcpy2D(bytes.data(), 4, bytes.data() + 32, 8, 8, 2, cudaMemcpyHostToHost),
              "a pitch is 4 for rows of 8 bytes; "),
      REFUSAL("cudaMemcpy3D", cudaErrorInvalidValue, cudaMemcpy3D(&box),
              "ysize is 1 for layers of 2 rows; pass at least that"),
      REFUSAL("cudaMemcpy3D", cudaErrorInvalidValue, cudaMemcpy3D(&far),
              "the position (18446744073709551615, 0, 0) with pitch 8 and ysize 1 lies past "),
      REFUSAL("cudaMemcpy3D", cudaErrorInvalidValue, cudaMemcpy3D(nullptr), "p is NULL; "),
      REFUSAL("cudaMemcpyPeer", cudaErrorInvalidDevice,
              cudaMemcpyPeer(bytes.data(), 0, bytes.data(), 7, 8), "there is no device 7; "),
      REFUSAL("cudaMemcpyToSymbol", cudaErrorInvalidSymbol,
              cudaMemcpyToSymbol(bytes.data(), bytes.data(), 1, 0, cudaMemcpyHostToDevice),
              hex(bytes.data()) + " is no variable of the program for devices; "),
      REFUSAL("cudaMalloc", cudaErrorInvalidValue, cudaMalloc(nullptr, 8), "devPtr is NULL; "),
  });
  cudaGetLastError();
}

TEST_CASE("attributes that some pointers lack keep the earlier message", "[api]") {
  session();
  const DeviceMemory memory;
  CHECK(cuEventDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  const std::string said = wherryGetLastErrorMessage();
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, reinterpret_cast<void*>(memory.handle)) ==
        cudaSuccess);
  CHECK(wherryGetLastErrorMessage() == said);
  void* pointer = nullptr;
  check({REFUSAL("cuPointerGetAttribute", CUDA_ERROR_INVALID_VALUE,
                 cuPointerGetAttribute(&pointer, CU_POINTER_ATTRIBUTE_HOST_POINTER, memory.handle),
                 "the host cannot access the memory at " + hex(memory.handle) + "; ")});
}
