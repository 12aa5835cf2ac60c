// Graphs that are built node by node, and executable graphs.
#include <algorithm>
#include <thread>

#include "api/graph_lists.h"
#include "support/catch.h"
#include "support/child.h"

using namespace wherry::test;

// Appends the number to the list, whose first element is the number of the others.
extern "C" void append(const wherryLaunchInfo* info, void** params) {
  int* const list = *static_cast<int**>(params[0]);
  if (info->begin == 0) list[++list[0]] = *static_cast<int*>(params[1]);
}
WHERRY_KERNEL_PARAMS(append, sizeof(int*), sizeof(int));

namespace {

// The parameters of a node that appends a number to the list.
class Append {
 public:
  Append(const List& list, int number) : list_(list.data()), number_(number) {
    WHERRY_TRY(cudaGetKernel(&kernel_, reinterpret_cast<const void*>(&append)) == cudaSuccess
                   ? CUDA_SUCCESS
                   : CUDA_ERROR_UNKNOWN);
  }
  CUDA_KERNEL_NODE_PARAMS params() {
    CUDA_KERNEL_NODE_PARAMS params{};
    params.gridDimX = params.gridDimY = params.gridDimZ = 1;
    params.blockDimX = params.blockDimY = params.blockDimZ = 1;
    params.kernelParams = pointers_;
    params.kern = kernel_;
    return params;
  }

 private:
  int* list_;
  int number_;
  cudaKernel_t kernel_ = nullptr;
  void* pointers_[2] = {&list_, &number_};
};

CUgraphNode add_append(CUgraph graph, const List& list, int number,
                       const std::vector<CUgraphNode>& after = {}) {
  Append append(list, number);
  const CUDA_KERNEL_NODE_PARAMS params = append.params();
  CUgraphNode node = nullptr;
  WHERRY_TRY(cuGraphAddKernelNode(&node, graph, after.data(), after.size(), &params));
  return node;
}

CUgraphNode add_empty(CUgraph graph, const std::vector<CUgraphNode>& after = {}) {
  CUgraphNode node = nullptr;
  WHERRY_TRY(cuGraphAddEmptyNode(&node, graph, after.data(), after.size()));
  return node;
}

struct NewGraph : OwnGraph {
  NewGraph() { WHERRY_TRY(cuGraphCreate(&handle, 0)); }
};

}  // namespace

// The first test: this process has not started the library yet.
TEST_CASE("a fill of memory that has been freed since fails, whatever is there now") {
  const Outcome outcome = in_fresh_process([] {
    const OnDevice on(isolated);
    CUdeviceptr memory = 0;
    WHERRY_TRY(cuMemAlloc(&memory, 4096));
    NewGraph graph;
    const CUDA_MEMSET_NODE_PARAMS ones{memory, 0, 1, 1, 4096, 1};
    CUgraphNode node = nullptr;
    WHERRY_TRY(
        cuGraphAddMemsetNode(&node, graph.handle, nullptr, 0, &ones, session().context(isolated)));
    WHERRY_TRY(cuGraphInstantiate(&graph.exec, graph.handle, 0));
    WHERRY_TRY(cuGraphLaunch(graph.exec, on.stream));
    WHERRY_TRY(cuStreamSynchronize(on.stream));
    WHERRY_TRY(cuMemFree(memory));
    WHERRY_TRY(cuMemAlloc(&memory, 4096));
    const CUresult launched = cuGraphLaunch(graph.exec, on.stream);
    const CUresult result = launched == CUDA_SUCCESS ? cuStreamSynchronize(on.stream) : launched;
    expect(result == CUDA_ERROR_ILLEGAL_ADDRESS, name_of(result));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("nodes run after those that they depend on") {
  const int device = GENERATE(isolated, coherent);
  const OnDevice on(device);
  const List list;
  NewGraph graph;
  // Added against the order in which they must run.
  const CUgraphNode third = add_append(graph.handle, list, 3);
  const CUgraphNode second = add_append(graph.handle, list, 2);
  const CUgraphNode first = add_append(graph.handle, list, 1);
  const CUgraphNode from[] = {first, second};
  const CUgraphNode to[] = {second, third};
  REQUIRE(cuGraphAddDependencies(graph.handle, from, to, nullptr, 2) == CUDA_SUCCESS);
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2, 3});
}

TEST_CASE("an executable graph outlives its graph, and launches of it follow each other") {
  const OnDevice on(isolated);
  const OnDevice other(isolated, CU_STREAM_NON_BLOCKING);
  const List list;
  CUgraphExec exec = nullptr;
  {
    NewGraph graph;
    add_append(graph.handle, list, 2, {add_append(graph.handle, list, 1)});
    WHERRY_TRY(cuGraphInstantiate(&exec, graph.handle, 0));
    add_append(graph.handle, list, 3);
  }
  std::vector<int> expected;
  for (int i = 0; i < 20; ++i) {
    CHECK(cuGraphLaunch(exec, i % 2 == 0 ? on.stream : other.stream) == CUDA_SUCCESS);
    expected.insert(expected.end(), {1, 2});
  }
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(exec, on.stream) == CUDA_ERROR_INVALID_HANDLE);
  WHERRY_TRY(cuCtxSynchronize());
  CHECK(list.numbers() == expected);
}

TEST_CASE("a graph comes after earlier work of the stream and before later work") {
  const OnDevice on(isolated);
  const List list;
  NewGraph graph;
  add_append(graph.handle, list, 2);
  WHERRY_TRY(cuGraphInstantiate(&graph.exec, graph.handle, 0));
  give_append(on.stream, list, 1);
  CHECK(cuGraphUpload(graph.exec, on.stream) == CUDA_SUCCESS);
  CHECK(cuGraphLaunch(graph.exec, on.stream) == CUDA_SUCCESS);
  give_append(on.stream, list, 3);
  WHERRY_TRY(cuStreamSynchronize(on.stream));
  CHECK(list.numbers() == std::vector{1, 2, 3});
}

TEST_CASE("copies, fills, host functions and events are nodes") {
  const OnDevice on(isolated);
  CUdeviceptr device = 0;
  WHERRY_TRY(cuMemAlloc(&device, 4096));
  std::vector<unsigned short> back(16, 1);
  const NewEvent event;
  NewGraph graph;
  CUgraphNode fill = nullptr;
  const CUDA_MEMSET_NODE_PARAMS rows{device, 64, 0x1234, 2, 4, 2};
  REQUIRE(cuGraphAddMemsetNode(&fill, graph.handle, nullptr, 0, &rows,
                               session().context(isolated)) == CUDA_SUCCESS);
  CUDA_MEMCPY3D box{};
  box.srcMemoryType = CU_MEMORYTYPE_DEVICE;
  box.srcDevice = device;
  box.srcPitch = 64;
  box.dstMemoryType = CU_MEMORYTYPE_HOST;
  box.dstHost = back.data();
  box.dstPitch = 8;
  box.WidthInBytes = 8;
  box.Height = 2;
  box.Depth = 1;
  CUgraphNode copy = nullptr;
  REQUIRE(cuGraphAddMemcpyNode(&copy, graph.handle, &fill, 1, &box, session().context(isolated)) ==
          CUDA_SUCCESS);
  int calls = 0;
  const CUDA_HOST_NODE_PARAMS host{[](void* data) { ++*static_cast<int*>(data); }, &calls};
  CUgraphNode call = nullptr;
  REQUIRE(cuGraphAddHostNode(&call, graph.handle, &copy, 1, &host) == CUDA_SUCCESS);
  CUgraphNode record = nullptr;
  CUgraphNode wait = nullptr;
  REQUIRE(cuGraphAddEventRecordNode(&record, graph.handle, &call, 1, event) == CUDA_SUCCESS);
  REQUIRE(cuGraphAddEventWaitNode(&wait, graph.handle, &record, 1, event) == CUDA_SUCCESS);
  graph.run(on.stream);
  CHECK(std::count(back.begin(), back.end(), 0x1234) == 8);
  CHECK(back[8] == 1);
  CHECK(calls == 1);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);

  const std::pair<CUgraphNode, CUgraphNodeType> types[] = {
      {fill, CU_GRAPH_NODE_TYPE_MEMSET},
      {copy, CU_GRAPH_NODE_TYPE_MEMCPY},
      {call, CU_GRAPH_NODE_TYPE_HOST},
      {record, CU_GRAPH_NODE_TYPE_EVENT_RECORD},
      {wait, CU_GRAPH_NODE_TYPE_WAIT_EVENT}};
  for (const auto& [node, expected] : types) {
    CUgraphNodeType type{};
    CHECK(cuGraphNodeGetType(node, &type) == CUDA_SUCCESS);
    CHECK(type == expected);
  }
  CUgraphNode refused = nullptr;
  const CUDA_MEMSET_NODE_PARAMS wrong{device, 0, 0, 3, 4, 1};
  CHECK(cuGraphAddMemsetNode(&refused, graph.handle, nullptr, 0, &wrong,
                             session().context(isolated)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddMemsetNode(&refused, graph.handle, nullptr, 0, &rows, nullptr) ==
        CUDA_ERROR_INVALID_CONTEXT);
  box.Depth = 0;
  CHECK(cuGraphAddMemcpyNode(&refused, graph.handle, nullptr, 0, &box,
                             session().context(isolated)) == CUDA_ERROR_INVALID_VALUE);
  CHECK(graph.size() == 5);
  WHERRY_TRY(cuMemFree(device));
}

TEST_CASE("a child's nodes run in its node's place, as they were when it was added") {
  const OnDevice on(isolated);
  const List list;
  NewGraph child;
  add_append(child.handle, list, 3, {add_append(child.handle, list, 2)});
  NewGraph graph;
  const CUgraphNode last = add_append(graph.handle, list, 4);
  const CUgraphNode first = add_append(graph.handle, list, 1);
  CUgraphNode node = nullptr;
  REQUIRE(cuGraphAddChildGraphNode(&node, graph.handle, &first, 1, child.handle) == CUDA_SUCCESS);
  WHERRY_TRY(cuGraphAddDependencies(graph.handle, &node, &last, nullptr, 1));
  add_append(child.handle, list, 5);
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2, 3, 4});
}

TEST_CASE("the structure of a graph is told and changed") {
  NewGraph graph;
  const CUgraphNode first = add_empty(graph.handle);
  const CUgraphNode second = add_empty(graph.handle, {first});
  const CUgraphNode third = add_empty(graph.handle, {first, second});
  CUgraphNode list[4] = {first, first, first, first};
  std::size_t count = 4;
  CHECK(cuGraphGetNodes(graph.handle, list, &count) == CUDA_SUCCESS);
  CHECK(count == 3);
  CHECK(std::vector(list, list + 4) == std::vector<CUgraphNode>{first, second, third, nullptr});
  CHECK(cuGraphGetRootNodes(graph.handle, nullptr, &count) == CUDA_SUCCESS);
  CHECK(count == 1);
  CUgraphNode from[2];
  CUgraphNode to[2];
  count = 2;
  CHECK(cuGraphGetEdges(graph.handle, from, to, nullptr, &count) == CUDA_SUCCESS);
  CHECK(count == 2);
  CHECK(from[0] == first);
  CHECK(to[0] == second);
  CHECK(cuGraphGetEdges(graph.handle, from, nullptr, nullptr, &count) == CUDA_ERROR_INVALID_VALUE);

  const auto add = [&](CUgraphNode start, CUgraphNode end) {
    return cuGraphAddDependencies(graph.handle, &start, &end, nullptr, 1);
  };
  NewGraph other;
  CHECK(add(first, second) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(first, first) == CUDA_ERROR_INVALID_VALUE);
  CHECK(add(first, add_empty(other.handle)) == CUDA_ERROR_INVALID_VALUE);
  CUgraphNode node = nullptr;
  const CUgraphNode twice[] = {first, first};
  CHECK(cuGraphAddEmptyNode(&node, graph.handle, twice, 2) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphAddEmptyNode(&node, graph.handle, nullptr, 1) == CUDA_ERROR_INVALID_VALUE);

  REQUIRE(add(third, first) == CUDA_SUCCESS);
  CUgraphExec exec = nullptr;
  CHECK(cuGraphInstantiate(&exec, graph.handle, 0) == CUDA_ERROR_INVALID_VALUE);  // a cycle
  CHECK(cuGraphDestroyNode(third) == CUDA_SUCCESS);
  CHECK(cuGraphDestroyNode(third) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphInstantiate(&exec, graph.handle, 0) == CUDA_SUCCESS);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(cuGraphInstantiate(&exec, graph.handle, CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) ==
        CUDA_ERROR_NOT_SUPPORTED);
  CHECK(cuGraphInstantiate(&exec, graph.handle, 16) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphCreate(&graph.handle, 1) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("a copy of a graph has nodes of its own") {
  const OnDevice on(isolated);
  const List list;
  NewGraph graph;
  const CUgraphNode node = add_append(graph.handle, list, 1);
  OwnGraph copy;
  REQUIRE(cuGraphClone(&copy.handle, graph.handle) == CUDA_SUCCESS);
  CUgraphNode copied = nullptr;
  REQUIRE(cuGraphNodeFindInClone(&copied, node, copy.handle) == CUDA_SUCCESS);
  CHECK(copied != node);
  CHECK(cuGraphNodeFindInClone(&copied, copied, graph.handle) == CUDA_ERROR_INVALID_VALUE);
  Append other(list, 2);
  const CUDA_KERNEL_NODE_PARAMS params = other.params();
  CHECK(cuGraphKernelNodeSetParams(copied, &params) == CUDA_SUCCESS);
  graph.run(on.stream);
  copy.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2});
}

TEST_CASE("a kernel's parameters are told and replaced") {
  const OnDevice on(isolated);
  const List list;
  NewGraph graph;
  const CUgraphNode node = add_append(graph.handle, list, 1);
  CUDA_KERNEL_NODE_PARAMS params{};
  REQUIRE(cuGraphKernelNodeGetParams(node, &params) == CUDA_SUCCESS);
  CHECK(*static_cast<int**>(params.kernelParams[0]) == list.data());
  CHECK(*static_cast<int*>(params.kernelParams[1]) == 1);
  CHECK(params.ctx == session().context(isolated));
  // Set accepts the parameters that Get has returned.
  CHECK(cuGraphKernelNodeSetParams(node, &params) == CUDA_SUCCESS);
  cudaKernelNodeParams same{};
  REQUIRE(cudaGraphKernelNodeGetParams(node, &same) == cudaSuccess);
  CHECK(same.func == reinterpret_cast<void*>(&append));
  CHECK(cudaGraphKernelNodeSetParams(node, &same) == cudaSuccess);
  graph.run(on.stream);

  Append two(list, 2);
  params = two.params();
  CHECK(cuGraphExecKernelNodeSetParams(graph.exec, node, &params) == CUDA_SUCCESS);
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 1 + 1});
  const CUgraphNode empty = add_empty(graph.handle);
  CHECK(cuGraphExecKernelNodeSetParams(graph.exec, empty, &params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphKernelNodeSetParams(empty, &params) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuGraphKernelNodeGetParams(empty, &params) == CUDA_ERROR_INVALID_VALUE);
  params = two.params();
  params.blockDimX = 0;
  CHECK(cuGraphKernelNodeSetParams(node, &params) == CUDA_ERROR_INVALID_VALUE);
  params = two.params();
  params.ctx = reinterpret_cast<CUcontext>(0x77);
  CHECK(cuGraphKernelNodeSetParams(node, &params) == CUDA_ERROR_INVALID_CONTEXT);
}

TEST_CASE("an executable graph is updated from a graph with the same nodes only") {
  const OnDevice on(isolated);
  const List list;
  NewGraph graph;
  add_append(graph.handle, list, 2, {add_append(graph.handle, list, 1)});
  graph.run(on.stream);
  NewGraph changed;
  const CUgraphNode three = add_append(changed.handle, list, 3);
  const auto update = [&] {
    CUgraphExecUpdateResultInfo info{};
    const CUresult result = cuGraphExecUpdate(graph.exec, changed.handle, &info);
    CHECK(result == (info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS
                         ? CUDA_SUCCESS
                         : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE));
    return info;
  };
  CHECK(update().result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CUgraphNode last = add_append(changed.handle, list, 4);
  CHECK(update().result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  CHECK(update().errorNode == last);
  WHERRY_TRY(cuGraphDestroyNode(last));
  last = add_empty(changed.handle, {three});
  CHECK(update().result == CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED);
  CHECK(update().errorNode == last);
  WHERRY_TRY(cuGraphDestroyNode(last));
  list.clear();
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{1, 2});
  add_append(changed.handle, list, 4, {three});
  CHECK(update().result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
  list.clear();
  graph.run(on.stream);
  CHECK(list.numbers() == std::vector{3, 4});
}

TEST_CASE("several threads launch one executable graph") {
  const List list;
  NewGraph graph;
  {
    const OnDevice on(isolated);
    add_append(graph.handle, list, 2, {add_append(graph.handle, list, 1)});
    WHERRY_TRY(cuGraphInstantiate(&graph.exec, graph.handle, 0));
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i)
    threads.emplace_back([&] {
      const OnDevice on(isolated, CU_STREAM_NON_BLOCKING);
      for (int k = 0; k < 10; ++k) cuGraphLaunch(graph.exec, on.stream);
      cuStreamSynchronize(on.stream);
    });
  for (std::thread& thread : threads) thread.join();
  std::vector<int> expected;
  for (int i = 0; i < 30; ++i) expected.insert(expected.end(), {1, 2});
  CHECK(list.numbers() == expected);
}

TEST_CASE("handles that are none are refused") {
  const OnDevice on(isolated);
  const auto graph = reinterpret_cast<CUgraph>(0x77);
  std::size_t count = 0;
  CUgraphNode node = nullptr;
  CUgraph made = nullptr;
  CHECK(cuGraphDestroy(graph) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphClone(&made, graph) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphGetNodes(graph, nullptr, &count) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphAddEmptyNode(&node, graph, nullptr, 0) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphExecDestroy(nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuGraphLaunch(nullptr, on.stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cudaGraphLaunch(nullptr, on.stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGraphCreate(nullptr, 0) == cudaErrorInvalidValue);
}
