#include "objects/graph.h"

#include <algorithm>
#include <set>

#include "objects/failures/refusals.h"

namespace wherry::impl {

GraphContent kernel_content(const std::shared_ptr<Context>& context, KernelLaunch launch) {
  auto kept = std::make_shared<const KeptLaunch>(std::move(launch));
  GraphContent content{CU_GRAPH_NODE_TYPE_KERNEL, context};
  content.work = [kept](Driver&, const StreamHandle& stream) {
    return refuse_status(run(stream, kept->launch));
  };
  content.kernel = std::move(kept);
  return content;
}

bool Graph::has(const std::vector<CUgraphNode>& nodes) const {
  return std::ranges::all_of(
      nodes, [&](CUgraphNode node) REQUIRES(lock_) { return nodes_.contains(node); });
}

Graph::Nodes Graph::snapshot() const {
  const LockGuard guard(lock_);
  return nodes_;
}

bool Graph::add(CUgraphNode handle, GraphContent content, std::vector<CUgraphNode> dependencies) {
  const std::set<CUgraphNode> different(dependencies.begin(), dependencies.end());
  const LockGuard guard(lock_);
  if (different.size() != dependencies.size() || !has(dependencies)) return false;
  nodes_[handle] = {nullptr, std::move(content), std::move(dependencies)};
  return true;
}

bool Graph::add_dependencies(const std::vector<Edge>& edges) {
  const LockGuard guard(lock_);
  std::set<Edge> added;
  for (const Edge& edge : edges) {
    const auto& [from, to] = edge;
    if (from == to || !has({from, to}) || !added.insert(edge).second) return false;
    const auto& there = nodes_[to].dependencies;
    if (std::ranges::find(there, from) != there.end()) return false;
  }
  for (const auto& [from, to] : edges) nodes_[to].dependencies.push_back(from);
  return true;
}

bool Graph::set(CUgraphNode node, GraphContent content) {
  const LockGuard guard(lock_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return false;
  found->second.content = std::move(content);
  return true;
}

bool Graph::remove(CUgraphNode node) {
  const LockGuard guard(lock_);
  if (nodes_.erase(node) == 0) return false;
  for (auto& [handle, other] : nodes_) std::erase(other.dependencies, node);
  return true;
}

std::optional<GraphContent> Graph::content(CUgraphNode node) const {
  const LockGuard guard(lock_);
  const auto found = nodes_.find(node);
  if (found == nodes_.end()) return std::nullopt;
  return found->second.content;
}

std::vector<CUgraphNode> Graph::nodes() const {
  std::vector<CUgraphNode> all;
  const LockGuard guard(lock_);
  for (const auto& [handle, node] : nodes_) all.push_back(handle);
  return all;
}

std::vector<CUgraphNode> Graph::roots() const {
  std::vector<CUgraphNode> roots;
  const LockGuard guard(lock_);
  for (const auto& [handle, node] : nodes_)
    if (node.dependencies.empty()) roots.push_back(handle);
  return roots;
}

std::vector<Graph::Edge> Graph::edges() const {
  std::vector<Edge> edges;
  const LockGuard guard(lock_);
  for (const auto& [handle, node] : nodes_)
    for (const CUgraphNode from : node.dependencies) edges.emplace_back(from, handle);
  return edges;
}

bool Graph::are_before(const std::vector<CUgraphNode>& nodes,
                       const std::vector<CUgraphNode>& tips) const {
  std::set<CUgraphNode> reached;
  std::vector<CUgraphNode> left = tips;
  const LockGuard guard(lock_);
  while (!left.empty()) {
    const CUgraphNode next = left.back();
    left.pop_back();
    const auto found = nodes_.find(next);
    if (found == nodes_.end() || !reached.insert(next).second) continue;
    const auto& further = found->second.dependencies;
    left.insert(left.end(), further.begin(), further.end());
  }
  return std::ranges::all_of(nodes, [&](CUgraphNode node) { return reached.contains(node); });
}

std::shared_ptr<Graph> Graph::copy(const std::function<CUgraphNode()>& name) const {
  const Nodes from = snapshot();
  std::map<CUgraphNode, CUgraphNode> copies;
  for (const auto& [original, node] : from) copies[original] = name();
  auto graph = std::make_shared<Graph>();
  const LockGuard guard(graph->lock_);
  for (const auto& [original, node] : from) {
    Node& copied = graph->nodes_[copies[original]];
    copied = {original, node.content, {}};
    for (const CUgraphNode dependency : node.dependencies)
      copied.dependencies.push_back(copies[dependency]);
  }
  return graph;
}

CUgraphNode Graph::copy_of(CUgraphNode original) const {
  const LockGuard guard(lock_);
  for (const auto& [handle, node] : nodes_)
    if (original != nullptr && node.original == original) return handle;
  return nullptr;
}

std::optional<std::vector<GraphStep>> Graph::steps() const {
  const Nodes nodes = snapshot();
  std::vector<GraphStep> steps;
  std::map<CUgraphNode, std::size_t> last;  // the index of the node's last step
  std::map<CUgraphNode, std::vector<CUgraphNode>> dependents;
  std::map<CUgraphNode, std::size_t> missing;
  std::set<CUgraphNode> ready;
  for (const auto& [handle, node] : nodes) {
    for (const CUgraphNode dependency : node.dependencies) dependents[dependency].push_back(handle);
    missing[handle] = node.dependencies.size();
    if (node.dependencies.empty()) ready.insert(handle);
  }
  while (!ready.empty()) {
    const CUgraphNode handle = ready.extract(ready.begin()).value();
    const Node& node = nodes.at(handle);
    GraphStep step{handle, node.content, {}};
    for (const CUgraphNode dependency : node.dependencies) step.after.push_back(last[dependency]);
    std::ranges::sort(step.after);
    if (node.content.child) {
      auto inner = node.content.child->steps();
      if (!inner) return std::nullopt;
      std::set<std::size_t> ends;
      const std::size_t first = steps.size();
      for (GraphStep& each : *inner) {
        for (std::size_t& earlier : each.after) ends.erase(earlier += first);
        if (each.after.empty()) each.after = step.after;
        ends.insert(steps.size());
        steps.push_back(std::move(each));
      }
      if (!ends.empty()) step.after = {ends.begin(), ends.end()};
    }
    last[handle] = steps.size();
    steps.push_back(std::move(step));
    for (const CUgraphNode dependent : dependents[handle])
      if (--missing[dependent] == 0) ready.insert(dependent);
  }
  if (last.size() != nodes.size()) return std::nullopt;
  return steps;
}

}  // namespace wherry::impl
