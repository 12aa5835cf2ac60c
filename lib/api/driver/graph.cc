// The C functions of graphs and their structure.
#include "api/graphs.h"

using namespace wherry::impl;

namespace {

// Stores the values in a list of the program, as cuGraphGetNodes does.
template <typename Value>
void tell(const std::vector<Value>& values, Value* list, std::size_t* count) {
  if (list == nullptr) return;
  for (std::size_t i = 0; i < *count; ++i) list[i] = i < values.size() ? values[i] : Value{};
}
void tell_count(std::size_t there, bool has_list, std::size_t* count) {
  *count = has_list ? std::min(*count, there) : there;
}

CUresult tell_nodes(const std::vector<CUgraphNode>& nodes, CUgraphNode* list, std::size_t* count) {
  tell(nodes, list, count);
  tell_count(nodes.size(), list != nullptr, count);
  return CUDA_SUCCESS;
}

bool is_plain(const CUgraphEdgeData& edge) {
  return edge.from_port == 0 && edge.to_port == 0 && edge.type == 0;
}

}  // namespace

CUresult cuGraphCreate(CUgraph* phGraph, unsigned int flags) {
  return enter([&](Driver& driver) {
    if (phGraph == nullptr) return refuse_null("phGraph");
    if (flags != 0) return refuse_flags(flags);
    *phGraph = driver.graphs().add(std::make_shared<Graph>());
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphDestroy(CUgraph hGraph) {
  return enter([&](Driver& driver) {
    return driver.graphs().destroy(hGraph) ? CUDA_SUCCESS : refuse_handle(hGraph);
  });
}

CUresult cuGraphClone(CUgraph* phGraphClone, CUgraph originalGraph) {
  return enter_graph(originalGraph, [&](Driver& driver, const std::shared_ptr<Graph>& graph) {
    if (phGraphClone == nullptr) return refuse_null("phGraphClone");
    *phGraphClone = driver.graphs().add(driver.graphs().copy(*graph));
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphNodeFindInClone(CUgraphNode* phNode, CUgraphNode hOriginalNode,
                                CUgraph hClonedGraph) {
  return enter_graph(hClonedGraph, [&](Driver&, const std::shared_ptr<Graph>& graph) {
    if (phNode == nullptr) return refuse_null("phNode");
    const CUgraphNode found = graph->copy_of(hOriginalNode);
    if (found == nullptr)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "hClonedGraph has no copy of the node {:#x}; pass a node of the graph that "
                  "cuGraphClone copied",
                  reinterpret_cast<std::uintptr_t>(hOriginalNode));
    *phNode = found;
    return CUDA_SUCCESS;
  });
}

CUresult cuGraphAddDependencies_v2(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                   const CUgraphEdgeData* edgeData, size_t numDependencies) {
  return enter_graph(hGraph, [&](Driver&, const std::shared_ptr<Graph>& graph) {
    if (numDependencies == 0) return CUDA_SUCCESS;
    if (from == nullptr) return refuse_null("from");
    if (to == nullptr) return refuse_null("to");
    if (edgeData != nullptr && !std::all_of(edgeData, edgeData + numDependencies, is_plain))
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "edgeData has values other than 0, which are not supported; pass NULL");
    std::vector<Graph::Edge> edges;
    for (std::size_t i = 0; i < numDependencies; ++i) edges.emplace_back(from[i], to[i]);
    if (graph->add_dependencies(edges)) return CUDA_SUCCESS;
    return fail(CUDA_ERROR_INVALID_VALUE,
                "one of the {} dependencies exists already, or names a node that is not of the "
                "graph or is both ends; pass new dependencies between two nodes of the graph",
                numDependencies);
  });
}
CUresult cuGraphAddDependencies(CUgraph hGraph, const CUgraphNode* from, const CUgraphNode* to,
                                size_t numDependencies) {
  return cuGraphAddDependencies_v2(hGraph, from, to, nullptr, numDependencies);
}

CUresult cuGraphGetNodes(CUgraph hGraph, CUgraphNode* nodes, size_t* numNodes) {
  return enter_graph(hGraph, [&](Driver&, const std::shared_ptr<Graph>& graph) {
    if (numNodes == nullptr) return refuse_null("numNodes");
    return tell_nodes(graph->nodes(), nodes, numNodes);
  });
}

CUresult cuGraphGetRootNodes(CUgraph hGraph, CUgraphNode* rootNodes, size_t* numRootNodes) {
  return enter_graph(hGraph, [&](Driver&, const std::shared_ptr<Graph>& graph) {
    if (numRootNodes == nullptr) return refuse_null("numRootNodes");
    return tell_nodes(graph->roots(), rootNodes, numRootNodes);
  });
}

CUresult cuGraphGetEdges_v2(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to,
                            CUgraphEdgeData* edgeData, size_t* numEdges) {
  return enter_graph(hGraph, [&](Driver&, const std::shared_ptr<Graph>& graph) {
    if (numEdges == nullptr) return refuse_null("numEdges");
    if ((from == nullptr) != (to == nullptr))
      return fail(CUDA_ERROR_INVALID_VALUE, "one of from and to is NULL; pass both or none");
    std::vector<CUgraphNode> starts;
    std::vector<CUgraphNode> ends;
    for (const auto& [start, end] : graph->edges()) {
      starts.push_back(start);
      ends.push_back(end);
    }
    tell(starts, from, numEdges);
    tell(ends, to, numEdges);
    if (from != nullptr) tell(std::vector<CUgraphEdgeData>(starts.size()), edgeData, numEdges);
    tell_count(starts.size(), from != nullptr, numEdges);
    return CUDA_SUCCESS;
  });
}
CUresult cuGraphGetEdges(CUgraph hGraph, CUgraphNode* from, CUgraphNode* to, size_t* numEdges) {
  return cuGraphGetEdges_v2(hGraph, from, to, nullptr, numEdges);
}
