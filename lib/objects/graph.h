// A graph: nodes of work that depend on each other, as a program builds it or a capture records it.
// Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/lock.h"
#include "objects/device.h"
#include "objects/kernel_launch.h"

namespace wherry::impl {

class Graph;

// Gives a node's work to a stream of the node's context. It holds copies of all its arguments.
using GraphWork = std::function<CUresult(Driver& driver, const StreamHandle& stream)>;

// What a node does. A node's content can be replaced by content of the same type.
struct GraphContent {
  CUgraphNodeType type = CU_GRAPH_NODE_TYPE_EMPTY;
  std::shared_ptr<Context> context = {};  // null: that of the launch's stream
  GraphWork work = {};                    // null: the node does nothing
  // The kernel that the node launches, if it has a handle; else null.
  std::shared_ptr<const KeptLaunch> kernel = {};
  std::shared_ptr<const Graph> child = {};  // the node's own copy of a graph
};

// The content of a node that launches the kernel.
GraphContent kernel_content(const std::shared_ptr<Context>& context, KernelLaunch launch);

// A node of an executable graph.
struct GraphStep {
  CUgraphNode node = nullptr;
  GraphContent content = {};
  std::vector<std::size_t> after = {};  // the earlier steps that it depends on, ascending
};

class Graph {
 public:
  using Edge = std::pair<CUgraphNode, CUgraphNode>;  // from, to

  // All of these return false, and change nothing, if a node is not in this graph.
  //
  // Adds a node with this handle.
  bool add(CUgraphNode handle, GraphContent content, std::vector<CUgraphNode> dependencies)
      EXCLUDES(lock_);
  // Also returns false if such a dependency exists, or a node would depend on itself.
  bool add_dependencies(const std::vector<Edge>& edges) EXCLUDES(lock_);
  bool set(CUgraphNode node, GraphContent content) EXCLUDES(lock_);
  // Removes the node with its dependencies.
  bool remove(CUgraphNode node) EXCLUDES(lock_);

  std::optional<GraphContent> content(CUgraphNode node) const EXCLUDES(lock_);
  // Returns the nodes in the order in which they were added.
  std::vector<CUgraphNode> nodes() const EXCLUDES(lock_);
  // The nodes that depend on no other.
  std::vector<CUgraphNode> roots() const EXCLUDES(lock_);
  std::vector<Edge> edges() const EXCLUDES(lock_);
  // Whether each of `nodes` is one of `tips`, or one of `tips` depends on it.
  bool are_before(const std::vector<CUgraphNode>& nodes, const std::vector<CUgraphNode>& tips) const
      EXCLUDES(lock_);

  // Returns a copy. Each call of name() must return a new handle for a node, higher than before.
  std::shared_ptr<Graph> copy(const std::function<CUgraphNode()>& name) const EXCLUDES(lock_);
  // Returns the node of this copy that stands for the original node, or null if there is none.
  CUgraphNode copy_of(CUgraphNode original) const EXCLUDES(lock_);

  // Returns every node after those that it depends on, with the nodes of children in their places.
  // Where the order is free, it is that of the additions. Returns nullopt if nodes depend on each
  // other in a circle.
  std::optional<std::vector<GraphStep>> steps() const EXCLUDES(lock_);

 private:
  struct Node {
    CUgraphNode original = nullptr;  // in the graph from which this one was copied
    GraphContent content = {};
    std::vector<CUgraphNode> dependencies = {};
  };
  using Nodes = std::map<CUgraphNode, Node>;

  bool has(const std::vector<CUgraphNode>& nodes) const REQUIRES(lock_);
  Nodes snapshot() const EXCLUDES(lock_);

  mutable Mutex lock_{LockOrder::graph};
  Nodes nodes_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
