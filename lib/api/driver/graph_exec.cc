// The C functions of executable graphs.
#include "api/graphs.h"

using namespace wherry::impl;

namespace {

constexpr unsigned long long instantiation_flags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult refuse_circle(CUresult code) {
  return fail(code, "nodes of the graph depend on each other in a circle; take one of them out");
}

CUresult refuse_update(const CUgraphExecUpdateResultInfo& info) {
  constexpr CUresult code = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  const auto node = reinterpret_cast<std::uintptr_t>(info.errorNode);
  switch (info.result) {
    case CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED:
      return fail(code, "the node {:#x} has another type than before; instantiate the graph anew",
                  node);
    case CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED:
      return fail(
          code, "the node {:#x} has another context than before; instantiate the graph anew", node);
    case CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED:
      return fail(code,
                  "the graph has other nodes or dependencies than before; instantiate it anew");
    default:
      return refuse_circle(code);
  }
}

CUresult launch(CUgraphExec handle, CUstream argument, const char* call = __builtin_FUNCTION()) {
  return enter_exec(
      handle,
      [&](Driver& driver, GraphExec& exec) {
        StreamHandle stream;
        const CUresult found = find_stream(driver, argument, stream);
        return found == CUDA_SUCCESS ? exec.launch(driver, stream) : found;
      },
      call);
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                     unsigned long long flags) {
  return enter_graph(hGraph, [&](Driver& driver, const std::shared_ptr<Graph>& graph) {
    if (phGraphExec == nullptr) return refuse_null("phGraphExec");
    if ((flags & ~instantiation_flags) != 0) return refuse_bits(flags, instantiation_flags);
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0)
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "flags has CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH, and devices launch no "
                  "graphs; leave it out and call cuGraphLaunch on the host");
    auto steps = graph->steps();
    if (!steps) return refuse_circle(CUDA_ERROR_INVALID_VALUE);
    *phGraphExec = driver.graphs().add(std::make_shared<GraphExec>(std::move(*steps)));
    return CUDA_SUCCESS;
  });
}
// The older functions have outputs for the node that is wrong, and a description. They stay empty:
// no error concerns a single node.
CUresult cuGraphInstantiate_v2(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                               char* logBuffer, size_t bufferSize) {
  if (phErrorNode != nullptr) *phErrorNode = nullptr;
  if (logBuffer != nullptr && bufferSize != 0) *logBuffer = '\0';
  return cuGraphInstantiateWithFlags(phGraphExec, hGraph, 0);
}
CUresult cuGraphInstantiate(CUgraphExec* phGraphExec, CUgraph hGraph, CUgraphNode* phErrorNode,
                            char* logBuffer, size_t bufferSize) {
  return cuGraphInstantiate_v2(phGraphExec, hGraph, phErrorNode, logBuffer, bufferSize);
}

CUresult cuGraphExecDestroy(CUgraphExec hGraphExec) {
  return enter([&](Driver& driver) {
    return driver.graphs().destroy(hGraphExec) ? CUDA_SUCCESS : refuse_handle(hGraphExec);
  });
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  return launch(hGraphExec, hStream);
}

CUresult cuGraphUpload(CUgraphExec handle, CUstream hStream) {
  return enter_exec(handle, [&](Driver& driver, GraphExec&) {
    StreamHandle stream;
    return find_working_stream(driver, hStream, stream);
  });
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return enter_exec(hGraphExec, [&](Driver& driver, GraphExec& exec) {
    if (nodeParams == nullptr) return refuse_null("nodeParams");
    GraphContent content;
    const CUresult made = kernel_content(driver, *nodeParams, content);
    if (made != CUDA_SUCCESS) return made;
    if (exec.set(hNode, std::move(content))) return CUDA_SUCCESS;
    return fail(
        CUDA_ERROR_INVALID_VALUE,
        "{:#x} is no kernel node of the executable graph; pass one of the graph that it was "
        "instantiated from",
        reinterpret_cast<std::uintptr_t>(hNode));
  });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
  return enter_exec(hGraphExec, [&](Driver& driver, GraphExec& exec) {
    const auto graph = driver.graphs().find(hGraph);
    if (!graph) return refuse_handle(hGraph);
    if (resultInfo == nullptr) return refuse_null("resultInfo");
    auto steps = graph->steps();
    *resultInfo = steps ? exec.update(std::move(*steps))
                        : CUgraphExecUpdateResultInfo{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    return resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS ? CUDA_SUCCESS
                                                              : refuse_update(*resultInfo);
  });
}
CUresult cuGraphExecUpdate(CUgraphExec hGraphExec, CUgraph hGraph, CUgraphNode* hErrorNode_out,
                           CUgraphExecUpdateResult* updateResult_out) {
  CUgraphExecUpdateResultInfo info{};
  const CUresult result = cuGraphExecUpdate_v2(hGraphExec, hGraph, &info);
  if (hErrorNode_out != nullptr) *hErrorNode_out = info.errorNode;
  if (updateResult_out != nullptr) *updateResult_out = info.result;
  return result;
}
