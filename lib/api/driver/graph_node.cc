// The C functions of the nodes of graphs.
#include "api/copies.h"
#include "api/event_work.h"
#include "api/graphs.h"
#include "objects/kernel_launch.h"

namespace wherry::impl {

CUresult kernel_content(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& params,
                        GraphContent& content) {
  std::shared_ptr<Context> context;
  if (params.ctx == nullptr) {
    const CUresult found = find_current(driver, context);
    if (found != CUDA_SUCCESS) return found;
  } else {
    context = driver.find_context(params.ctx);
    if (!context) return refuse_context(params.ctx);
  }
  const CUfunction function =
      params.func != nullptr ? params.func : reinterpret_cast<CUfunction>(params.kern);
  const LaunchShape shape{{params.gridDimX, params.gridDimY, params.gridDimZ},
                          {params.blockDimX, params.blockDimY, params.blockDimZ},
                          params.sharedMemBytes};
  KernelLaunch launch;
  const CUresult planned =
      plan_launch(driver, *context, function, shape, params.kernelParams, params.extra, launch);
  if (planned == CUDA_SUCCESS) content = kernel_content(context, std::move(launch));
  return planned;
}

}  // namespace wherry::impl

using namespace wherry::impl;

namespace {

struct Place {
  CUgraphNode* node;
  CUgraph graph;
  const CUgraphNode* dependencies;
  std::size_t count;
};

// Adds a node. make(driver, content) sets its content, and returns a CUresult.
template <typename Make>
CUresult add(const Place& place, const Make& make, const char* call = __builtin_FUNCTION()) {
  return enter_graph(
      place.graph,
      [&](Driver& driver, const std::shared_ptr<Graph>& graph) {
        if (place.node == nullptr) return refuse_null("phGraphNode");
        if (place.dependencies == nullptr && place.count != 0) return refuse_null("dependencies");
        GraphContent content;
        const CUresult made = make(driver, content);
        if (made != CUDA_SUCCESS) return made;
        const CUgraphNode node = driver.graphs().add_node(
            graph, std::move(content), {place.dependencies, place.dependencies + place.count});
        if (node == nullptr)
          return fail(CUDA_ERROR_INVALID_VALUE,
                      "one of the {} dependencies is no node of the graph, or is there twice; pass "
                      "different nodes of the graph",
                      place.count);
        *place.node = node;
        return CUDA_SUCCESS;
      },
      call);
}

// Sets the content of a copy or fill. make(target, plan) plans it.
template <typename Make>
CUresult make_copy(Driver& driver, CUgraphNodeType type, CUcontext handle, GraphContent& content,
                   const Make& make) {
  const StreamHandle target{driver.find_context(handle), nullptr};
  if (!target.context) return refuse_context(handle);
  PlannedCopy plan;
  const CUresult planned = make(target, plan);
  if (planned == CUDA_SUCCESS) content = {type, target.context, copy_work(std::move(plan.request))};
  return planned;
}

CUresult refuse_no_kernel(CUgraphNodeType type) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the node has the type {}; pass one of type CU_GRAPH_NODE_TYPE_KERNEL",
              static_cast<int>(type));
}

CUresult plan_fill(Driver& driver, const StreamHandle& target,
                   const CUDA_MEMSET_NODE_PARAMS& params, PlannedCopy& plan) {
  const unsigned size = params.elementSize;
  Extent extent{0, params.height};
  if (size != 1 && size != 2 && size != 4)
    return fail(CUDA_ERROR_INVALID_VALUE, "elementSize is {}; pass 1, 2 or 4", size);
  if (__builtin_mul_overflow(params.width, size, &extent.width) || extent.is_empty())
    return fail(CUDA_ERROR_INVALID_VALUE,
                "width is {} and height {}; pass at least 1 each, and no more than the memory has",
                params.width, params.height);
  if (extent.rows > 1 && (params.pitch < extent.width || params.pitch > max_pitch))
    return fail(CUDA_ERROR_INVALID_VALUE, "pitch is {}; pass {} to {} for rows of {} bytes",
                params.pitch, extent.width, max_pitch, extent.width);
  return plan_fill(driver, target, {Role::device, params.dst, extent.rows > 1 ? params.pitch : 0},
                   extent, params.value, size, plan);
}

}  // namespace

CUresult cuGraphAddKernelNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               return nodeParams != nullptr ? kernel_content(driver, *nodeParams, content)
                                            : refuse_null("nodeParams");
             });
}

CUresult cuGraphAddMemcpyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMCPY3D* copyParams, CUcontext ctx) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               if (copyParams == nullptr) return refuse_null("copyParams");
               return make_copy(driver, CU_GRAPH_NODE_TYPE_MEMCPY, ctx, content,
                                [&](const StreamHandle& target, PlannedCopy& plan) {
                                  return plan_box(driver, target, *copyParams, plan);
                                });
             });
}

CUresult cuGraphAddMemsetNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                              const CUgraphNode* dependencies, size_t numDependencies,
                              const CUDA_MEMSET_NODE_PARAMS* memsetParams, CUcontext ctx) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               if (memsetParams == nullptr) return refuse_null("memsetParams");
               return make_copy(driver, CU_GRAPH_NODE_TYPE_MEMSET, ctx, content,
                                [&](const StreamHandle& target, PlannedCopy& plan) {
                                  return plan_fill(driver, target, *memsetParams, plan);
                                });
             });
}

CUresult cuGraphAddHostNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                            const CUgraphNode* dependencies, size_t numDependencies,
                            const CUDA_HOST_NODE_PARAMS* nodeParams) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver&, GraphContent& content) {
               if (nodeParams == nullptr) return refuse_null("nodeParams");
               if (nodeParams->fn == nullptr) return refuse_null("nodeParams->fn");
               content.type = CU_GRAPH_NODE_TYPE_HOST;
               content.work = host_work(nodeParams->fn, nodeParams->userData);
               return CUDA_SUCCESS;
             });
}

CUresult cuGraphAddEmptyNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                             const CUgraphNode* dependencies, size_t numDependencies) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [](Driver&, GraphContent&) { return CUDA_SUCCESS; });
}

CUresult cuGraphAddEventRecordNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                   const CUgraphNode* dependencies, size_t numDependencies,
                                   CUevent event) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               const auto found = driver.find_event(event);
               if (!found) return refuse_handle(event);
               content = {CU_GRAPH_NODE_TYPE_EVENT_RECORD, found->context, record_work(found)};
               return CUDA_SUCCESS;
             });
}

CUresult cuGraphAddEventWaitNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                 const CUgraphNode* dependencies, size_t numDependencies,
                                 CUevent event) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               const auto found = driver.find_event(event);
               if (!found) return refuse_handle(event);
               content.type = CU_GRAPH_NODE_TYPE_WAIT_EVENT;
               content.work = wait_work(found);
               return CUDA_SUCCESS;
             });
}

CUresult cuGraphAddChildGraphNode(CUgraphNode* phGraphNode, CUgraph hGraph,
                                  const CUgraphNode* dependencies, size_t numDependencies,
                                  CUgraph childGraph) {
  return add({phGraphNode, hGraph, dependencies, numDependencies},
             [&](Driver& driver, GraphContent& content) {
               const auto child = driver.graphs().find(childGraph);
               if (!child) return refuse_handle(childGraph);
               content.type = CU_GRAPH_NODE_TYPE_GRAPH;
               content.child = driver.graphs().copy_for_node(*child);
               return CUDA_SUCCESS;
             });
}

CUresult cuGraphNodeGetType(CUgraphNode hNode, CUgraphNodeType* type) {
  return enter_node(hNode, [&](Driver&, const Graph& graph) {
    const auto content = graph.content(hNode);
    if (!content) return refuse_handle(hNode);
    if (type == nullptr) return refuse_null("type");
    *type = content->type;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroyNode(CUgraphNode hNode) {
  return enter([&](Driver& driver) {
    return driver.graphs().destroy_node(hNode) ? CUDA_SUCCESS : refuse_handle(hNode);
  });
}

CUresult cuGraphKernelNodeGetParams(CUgraphNode hNode, CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return enter_node(hNode, [&](Driver&, const Graph& graph) {
    const auto content = graph.content(hNode);
    if (!content) return refuse_handle(hNode);
    if (nodeParams == nullptr) return refuse_null("nodeParams");
    if (!content->kernel)
      return content->type == CU_GRAPH_NODE_TYPE_KERNEL
                 ? fail(CUDA_ERROR_INVALID_VALUE,
                        "the node launches a function of wherryLaunchKernel, which has no such "
                        "parameters; launch a kernel of cuModuleGetFunction")
                 : refuse_no_kernel(content->type);
    const KernelLaunch& launch = content->kernel->launch;
    *nodeParams = {launch.function, launch.shape.grid[0], launch.shape.grid[1],
                   launch.shape.grid[2], launch.shape.block[0], launch.shape.block[1],
                   launch.shape.block[2], launch.shape.shared_bytes,
                   // The program must not write to the list or to the parameters, so the cast is
                   // safe.
                   const_cast<void**>(content->kernel->params.data()), nullptr, nullptr,
                   content->context->handle};
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode hNode, const CUDA_KERNEL_NODE_PARAMS* nodeParams) {
  return enter_node(hNode, [&](Driver& driver, Graph& graph) {
    const auto old = graph.content(hNode);
    if (!old) return refuse_handle(hNode);
    if (nodeParams == nullptr) return refuse_null("nodeParams");
    if (old->type != CU_GRAPH_NODE_TYPE_KERNEL) return refuse_no_kernel(old->type);
    GraphContent content;
    const CUresult made = kernel_content(driver, *nodeParams, content);
    if (made != CUDA_SUCCESS) return made;
    return graph.set(hNode, std::move(content)) ? CUDA_SUCCESS : refuse_handle(hNode);
  });
}
