#include "objects/graphs.h"

#include <utility>

namespace wherry::impl {

bool Graphs::destroy(CUgraph handle) {
  const auto graph = graphs_.take(handle);
  if (!graph) return false;
  for (const CUgraphNode node : graph->nodes()) nodes_.take(node);
  return true;
}

CUgraphNode Graphs::add_node(const std::shared_ptr<Graph>& graph, GraphContent content,
                             std::vector<CUgraphNode> dependencies) {
  const CUgraphNode node = nodes_.reserve();
  if (!graph->add(node, std::move(content), std::move(dependencies))) return nullptr;
  nodes_.assign(node, graph);
  return node;
}

bool Graphs::destroy_node(CUgraphNode node) {
  const auto graph = nodes_.take(node);
  return graph && graph->remove(node);
}

std::shared_ptr<Graph> Graphs::copy(const Graph& graph) {
  auto copied = graph.copy([&] { return nodes_.reserve(); });
  for (const CUgraphNode node : copied->nodes()) nodes_.assign(node, copied);
  return copied;
}

std::shared_ptr<const Graph> Graphs::copy_for_node(const Graph& graph) {
  return graph.copy([&] { return nodes_.reserve(); });
}

}  // namespace wherry::impl
