// The graphs that the program has, their nodes, and the executable graphs, by their handles. Any
// thread.
#pragma once

#include <wherry/cuda.h>

#include <memory>
#include <vector>

#include "objects/graph.h"
#include "objects/graph_exec.h"
#include "objects/handle_table.h"

namespace wherry::impl {

class Graphs {
 public:
  CUgraph add(const std::shared_ptr<Graph>& graph) { return graphs_.insert(graph); }
  std::shared_ptr<Graph> find(CUgraph handle) const { return graphs_.find(handle); }
  // Destroys the graph with its nodes. Returns false if there is none.
  bool destroy(CUgraph handle);

  // Returns null if a node of `dependencies` is not in the graph.
  CUgraphNode add_node(const std::shared_ptr<Graph>& graph, GraphContent content,
                       std::vector<CUgraphNode> dependencies);
  // Returns the graph that contains the node, or null if there is no such node.
  std::shared_ptr<Graph> graph_of(CUgraphNode node) const { return nodes_.find(node); }
  // Returns false if there is no such node.
  bool destroy_node(CUgraphNode node);

  // Returns a copy, whose nodes have handles of their own.
  std::shared_ptr<Graph> copy(const Graph& graph);
  // Returns a copy that belongs to a node. Its nodes cannot be found by their handles.
  std::shared_ptr<const Graph> copy_for_node(const Graph& graph);

  CUgraphExec add(const std::shared_ptr<GraphExec>& exec) { return execs_.insert(exec); }
  std::shared_ptr<GraphExec> find(CUgraphExec handle) const { return execs_.find(handle); }
  bool destroy(CUgraphExec handle) { return execs_.take(handle) != nullptr; }

 private:
  HandleTable<CUgraph, Graph> graphs_{1};
  HandleTable<CUgraphNode, Graph> nodes_{3};
  HandleTable<CUgraphExec, GraphExec> execs_{5};
};

}  // namespace wherry::impl
