// Common parts of the C functions of graphs.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "api/entry.h"

namespace wherry::impl {

// Calls body(driver, graph), which returns a CUresult, if the graph exists.
template <typename Body>
CUresult enter_graph(CUgraph handle, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const std::shared_ptr<Graph> graph = driver.graphs().find(handle);
    return graph ? body(driver, graph) : refuse_handle(handle);
  });
}

// Calls body(driver, graph), which returns a CUresult, with the node's graph.
template <typename Body>
CUresult enter_node(CUgraphNode node, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const std::shared_ptr<Graph> graph = driver.graphs().graph_of(node);
    return graph ? body(driver, *graph) : refuse_handle(node);
  });
}

// Calls body(driver, exec), which returns a CUresult, if the executable graph exists.
template <typename Body>
CUresult enter_exec(CUgraphExec handle, const Body& body, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const std::shared_ptr<GraphExec> exec = driver.graphs().find(handle);
    return exec ? body(driver, *exec) : refuse_handle(handle);
  });
}

// Makes the content of a kernel node. Returns cuGraphAddKernelNode's errors.
CUresult kernel_content(Driver& driver, const CUDA_KERNEL_NODE_PARAMS& params,
                        GraphContent& content);

}  // namespace wherry::impl
