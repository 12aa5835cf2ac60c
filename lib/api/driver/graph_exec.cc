// The C functions of executable graphs.
#include "api/graphs.h"

using namespace wherry::impl;

namespace {

constexpr unsigned long long known_flags =
    CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
    CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH | CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;

CUresult launch(CUgraphExec handle, CUstream argument) {
  return enter_exec(handle, [&](Driver& driver, GraphExec& exec) {
    StreamHandle stream;
    const CUresult found = find_stream(driver, argument, stream);
    return found == CUDA_SUCCESS ? exec.launch(driver, stream) : found;
  });
}

CUresult upload(CUgraphExec handle, CUstream argument) {
  return enter_exec(handle, [&](Driver& driver, GraphExec&) {
    StreamHandle stream;
    return find_working_stream(driver, argument, stream);
  });
}

}  // namespace

CUresult cuGraphInstantiateWithFlags(CUgraphExec* phGraphExec, CUgraph hGraph,
                                     unsigned long long flags) {
  return enter_graph(hGraph, [&](Driver& driver, const std::shared_ptr<Graph>& graph) {
    if (phGraphExec == nullptr || (flags & ~known_flags) != 0) return CUDA_ERROR_INVALID_VALUE;
    if ((flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH) != 0) return CUDA_ERROR_NOT_SUPPORTED;
    auto steps = graph->steps();
    if (!steps) return CUDA_ERROR_INVALID_VALUE;
    *phGraphExec = driver.graphs().add(std::make_shared<GraphExec>(std::move(*steps)));
    return CUDA_SUCCESS;
  });
}
// The older functions also name a node that is wrong, and describe why: an error is never of one
// node.
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
    return driver.graphs().destroy(hGraphExec) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  });
}

CUresult cuGraphLaunch(CUgraphExec hGraphExec, CUstream hStream) {
  return launch(hGraphExec, hStream);
}
CUresult cuGraphLaunch_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return launch(hGraphExec, per_thread(hStream));
}

CUresult cuGraphUpload(CUgraphExec hGraphExec, CUstream hStream) {
  return upload(hGraphExec, hStream);
}
CUresult cuGraphUpload_ptsz(CUgraphExec hGraphExec, CUstream hStream) {
  return upload(hGraphExec, per_thread(hStream));
}

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec hGraphExec, CUgraphNode hNode,
                                        const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return enter_exec(hGraphExec, [&](Driver& driver, GraphExec& exec) {
    if (nodeParams == nullptr) return CUDA_ERROR_INVALID_VALUE;
    GraphContent content;
    const CUresult made = kernel_content(driver, *nodeParams, content);
    if (made != CUDA_SUCCESS) return made;
    return exec.set(hNode, std::move(content)) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuGraphExecUpdate_v2(CUgraphExec hGraphExec, CUgraph hGraph,
                              CUgraphExecUpdateResultInfo* resultInfo) {
  return enter_exec(hGraphExec, [&](Driver& driver, GraphExec& exec) {
    const auto graph = driver.graphs().find(hGraph);
    if (!graph) return CUDA_ERROR_INVALID_HANDLE;
    if (resultInfo == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto steps = graph->steps();
    *resultInfo = steps ? exec.update(std::move(*steps))
                        : CUgraphExecUpdateResultInfo{CU_GRAPH_EXEC_UPDATE_ERROR, nullptr, nullptr};
    return resultInfo->result == CU_GRAPH_EXEC_UPDATE_SUCCESS
               ? CUDA_SUCCESS
               : CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
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
