// The runtime API's functions of graphs.
#include "api/cudart/entry.h"
#include "api/entry.h"

using namespace wherry::impl;

namespace {

CUmemorytype memory_type(cudaMemcpyKind kind, bool is_host) {
  if (kind == cudaMemcpyDefault) return CU_MEMORYTYPE_UNIFIED;
  return is_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
}

bool is_kind(cudaMemcpyKind kind) {
  return kind >= cudaMemcpyHostToHost && kind <= cudaMemcpyDefault;
}

// Requires: the kind is valid.
CUDA_MEMCPY3D to_driver_copy(const cudaMemcpy3DParms& what) {
  CUDA_MEMCPY3D same{};
  const bool from_host = what.kind == cudaMemcpyHostToHost || what.kind == cudaMemcpyHostToDevice;
  same.srcMemoryType = memory_type(what.kind, from_host);
  same.srcHost = what.srcPtr.ptr;
  same.srcDevice = address_of(what.srcPtr.ptr);
  same.srcXInBytes = what.srcPos.x;
  same.srcY = what.srcPos.y;
  same.srcZ = what.srcPos.z;
  same.srcPitch = what.srcPtr.pitch;
  same.srcHeight = what.srcPtr.ysize;
  const bool to_host = what.kind == cudaMemcpyHostToHost || what.kind == cudaMemcpyDeviceToHost;
  same.dstMemoryType = memory_type(what.kind, to_host);
  same.dstHost = what.dstPtr.ptr;
  same.dstDevice = address_of(what.dstPtr.ptr);
  same.dstXInBytes = what.dstPos.x;
  same.dstY = what.dstPos.y;
  same.dstZ = what.dstPos.z;
  same.dstPitch = what.dstPtr.pitch;
  same.dstHeight = what.dstPtr.ysize;
  same.WidthInBytes = what.extent.width;
  same.Height = what.extent.height;
  same.Depth = what.extent.depth;
  return same;
}

// Calls body(params), which returns a CUresult, with the driver API's parameters of the kernel.
template <typename Body>
cudaError_t with_params(const cudaKernelNodeParams* params, const Body& body,
                        const char* call = __builtin_FUNCTION()) {
  if (params == nullptr) return with_context(call, [] { return refuse_null("pNodeParams"); });
  CUkernel kernel = nullptr;
  const cudaError_t found = cudaGetKernel(&kernel, params->func);
  if (found != cudaSuccess) return found;
  CUDA_KERNEL_NODE_PARAMS same{};
  same.gridDimX = params->gridDim.x;
  same.gridDimY = params->gridDim.y;
  same.gridDimZ = params->gridDim.z;
  same.blockDimX = params->blockDim.x;
  same.blockDimY = params->blockDim.y;
  same.blockDimZ = params->blockDim.z;
  same.sharedMemBytes = params->sharedMemBytes;
  same.kernelParams = params->kernelParams;
  same.extra = params->extra;
  same.kern = kernel;
  return with_context(call, [&] { return body(same); });
}

// The handle or address by which the program names the kernel.
void* function_of(Driver& driver, CUfunction function) {
  const auto address = driver.libraries().address_of(reinterpret_cast<CUkernel>(function));
  return address != 0 ? reinterpret_cast<void*>(address) : static_cast<void*>(function);
}

CUresult add_copy(cudaGraphNode_t* node, cudaGraph_t graph, const cudaGraphNode_t* dependencies,
                  std::size_t count, const cudaMemcpy3DParms& what) {
  CUcontext context = nullptr;
  const CUresult found = cuCtxGetCurrent(&context);
  if (found != CUDA_SUCCESS) return found;
  const CUDA_MEMCPY3D same = to_driver_copy(what);
  return cuGraphAddMemcpyNode(node, graph, dependencies, count, &same, context);
}

}  // namespace

cudaError_t cudaGraphCreate(cudaGraph_t* pGraph, unsigned int flags) {
  return with_library([&] { return cuGraphCreate(pGraph, flags); });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return with_library([&] { return cuGraphDestroy(graph); });
}

cudaError_t cudaGraphClone(cudaGraph_t* pGraphClone, cudaGraph_t originalGraph) {
  return with_library([&] { return cuGraphClone(pGraphClone, originalGraph); });
}

cudaError_t cudaGraphNodeFindInClone(cudaGraphNode_t* pNode, cudaGraphNode_t originalNode,
                                     cudaGraph_t clonedGraph) {
  return with_library([&] { return cuGraphNodeFindInClone(pNode, originalNode, clonedGraph); });
}

cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaKernelNodeParams* pNodeParams) {
  return with_params(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS& params) {
    return cuGraphAddKernelNode(pGraphNode, graph, pDependencies, numDependencies, &params);
  });
}

cudaError_t cudaGraphAddMemcpyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemcpy3DParms* pCopyParams) {
  if (pCopyParams == nullptr) return finish(refuse_null("pCopyParams"));
  if (pCopyParams->srcArray != nullptr || pCopyParams->dstArray != nullptr) return refuse_array();
  if (!is_kind(pCopyParams->kind)) return refuse_kind(pCopyParams->kind);
  return with_context(
      [&] { return add_copy(pGraphNode, graph, pDependencies, numDependencies, *pCopyParams); });
}

cudaError_t cudaGraphAddMemcpyNode1D(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                     const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                     void* dst, const void* src, size_t count,
                                     cudaMemcpyKind kind) {
  if (!is_kind(kind)) return refuse_kind(kind);
  cudaMemcpy3DParms what{};
  what.srcPtr = {const_cast<void*>(src), count, count, 1};
  what.dstPtr = {dst, count, count, 1};
  what.extent = {count, 1, 1};
  what.kind = kind;
  return with_context(
      [&] { return add_copy(pGraphNode, graph, pDependencies, numDependencies, what); });
}

cudaError_t cudaGraphAddMemsetNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                   const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                   const cudaMemsetParams* pMemsetParams) {
  return with_context([&] {
    if (pMemsetParams == nullptr) return refuse_null("pMemsetParams");
    CUcontext context = nullptr;
    const CUresult found = cuCtxGetCurrent(&context);
    if (found != CUDA_SUCCESS) return found;
    const CUDA_MEMSET_NODE_PARAMS same{address_of(pMemsetParams->dst), pMemsetParams->pitch,
                                       pMemsetParams->value,           pMemsetParams->elementSize,
                                       pMemsetParams->width,           pMemsetParams->height};
    return cuGraphAddMemsetNode(pGraphNode, graph, pDependencies, numDependencies, &same, context);
  });
}

cudaError_t cudaGraphAddHostNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                 const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                 const cudaHostNodeParams* pNodeParams) {
  return with_library([&] {
    if (pNodeParams == nullptr) return refuse_null("pNodeParams");
    const CUDA_HOST_NODE_PARAMS same{pNodeParams->fn, pNodeParams->userData};
    return cuGraphAddHostNode(pGraphNode, graph, pDependencies, numDependencies, &same);
  });
}

cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                  const cudaGraphNode_t* pDependencies, size_t numDependencies) {
  return with_library(
      [&] { return cuGraphAddEmptyNode(pGraphNode, graph, pDependencies, numDependencies); });
}

cudaError_t cudaGraphAddEventRecordNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                        const cudaGraphNode_t* pDependencies,
                                        size_t numDependencies, cudaEvent_t event) {
  return with_library([&] {
    return cuGraphAddEventRecordNode(pGraphNode, graph, pDependencies, numDependencies, event);
  });
}

cudaError_t cudaGraphAddEventWaitNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                      const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                      cudaEvent_t event) {
  return with_library([&] {
    return cuGraphAddEventWaitNode(pGraphNode, graph, pDependencies, numDependencies, event);
  });
}

cudaError_t cudaGraphAddChildGraphNode(cudaGraphNode_t* pGraphNode, cudaGraph_t graph,
                                       const cudaGraphNode_t* pDependencies, size_t numDependencies,
                                       cudaGraph_t childGraph) {
  return with_library([&] {
    return cuGraphAddChildGraphNode(pGraphNode, graph, pDependencies, numDependencies, childGraph);
  });
}

cudaError_t cudaGraphAddDependencies(cudaGraph_t graph, const cudaGraphNode_t* from,
                                     const cudaGraphNode_t* to, const cudaGraphEdgeData* edgeData,
                                     size_t numDependencies) {
  static_assert(sizeof(cudaGraphEdgeData) == sizeof(CUgraphEdgeData));
  return with_library([&] {
    return cuGraphAddDependencies_v2(
        graph, from, to, reinterpret_cast<const CUgraphEdgeData*>(edgeData), numDependencies);
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* numNodes) {
  return with_library([&] { return cuGraphGetNodes(graph, nodes, numNodes); });
}

cudaError_t cudaGraphGetRootNodes(cudaGraph_t graph, cudaGraphNode_t* pRootNodes,
                                  size_t* pNumRootNodes) {
  return with_library([&] { return cuGraphGetRootNodes(graph, pRootNodes, pNumRootNodes); });
}

cudaError_t cudaGraphGetEdges(cudaGraph_t graph, cudaGraphNode_t* from, cudaGraphNode_t* to,
                              cudaGraphEdgeData* edgeData, size_t* numEdges) {
  return with_library([&] {
    return cuGraphGetEdges_v2(graph, from, to, reinterpret_cast<CUgraphEdgeData*>(edgeData),
                              numEdges);
  });
}

cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* pType) {
  return with_library(
      [&] { return cuGraphNodeGetType(node, reinterpret_cast<CUgraphNodeType*>(pType)); });
}

cudaError_t cudaGraphDestroyNode(cudaGraphNode_t node) {
  return with_library([&] { return cuGraphDestroyNode(node); });
}

cudaError_t cudaGraphKernelNodeGetParams(cudaGraphNode_t node, cudaKernelNodeParams* pNodeParams) {
  return with_library([&] {
    CUDA_KERNEL_NODE_PARAMS params{};
    const CUresult result =
        cuGraphKernelNodeGetParams(node, pNodeParams != nullptr ? &params : nullptr);
    if (result != CUDA_SUCCESS) return result;
    *pNodeParams = {function_of(*Driver::current(), params.func),
                    {params.gridDimX, params.gridDimY, params.gridDimZ},
                    {params.blockDimX, params.blockDimY, params.blockDimZ},
                    params.sharedMemBytes,
                    params.kernelParams,
                    params.extra};
    return CUDA_SUCCESS;
  });
}

cudaError_t cudaGraphKernelNodeSetParams(cudaGraphNode_t node,
                                         const cudaKernelNodeParams* pNodeParams) {
  return with_params(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS& params) {
    return cuGraphKernelNodeSetParams(node, &params);
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                 unsigned long long flags) {
  return with_library([&] { return cuGraphInstantiateWithFlags(pGraphExec, graph, flags); });
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* pGraphExec, cudaGraph_t graph,
                                          unsigned long long flags) {
  return cudaGraphInstantiate(pGraphExec, graph, flags);
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t graphExec) {
  return with_library([&] { return cuGraphExecDestroy(graphExec); });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return with_context([&] { return cuGraphLaunch(graphExec, stream); });
}

cudaError_t cudaGraphUpload(cudaGraphExec_t graphExec, cudaStream_t stream) {
  return with_context([&] { return cuGraphUpload(graphExec, stream); });
}

cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t hGraphExec, cudaGraphNode_t node,
                                             const cudaKernelNodeParams* pNodeParams) {
  return with_params(pNodeParams, [&](const CUDA_KERNEL_NODE_PARAMS& params) {
    return cuGraphExecKernelNodeSetParams(hGraphExec, node, &params);
  });
}

cudaError_t cudaGraphExecUpdate(cudaGraphExec_t hGraphExec, cudaGraph_t hGraph,
                                cudaGraphExecUpdateResultInfo* resultInfo) {
  static_assert(sizeof(cudaGraphExecUpdateResultInfo) == sizeof(CUgraphExecUpdateResultInfo));
  return with_library([&] {
    return cuGraphExecUpdate_v2(hGraphExec, hGraph,
                                reinterpret_cast<CUgraphExecUpdateResultInfo*>(resultInfo));
  });
}
