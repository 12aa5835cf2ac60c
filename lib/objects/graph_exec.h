// An executable graph: a copy of a graph's steps in an order in which they can run. Changes of the
// graph no longer affect it. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "base/lock.h"
#include "objects/device.h"
#include "objects/graph.h"

namespace wherry::impl {

class GraphExec {
 public:
  explicit GraphExec(std::vector<GraphStep> steps) : steps_(std::move(steps)) {}
  ~GraphExec();
  GraphExec(const GraphExec&) = delete;
  GraphExec& operator=(const GraphExec&) = delete;

  // Gives all steps to the stream in order, after the previous launch of this object. Steps of
  // other contexts go to streams of this object, in the same order. Returns the first error; the
  // steps before it still run.
  CUresult launch(Driver& driver, const StreamHandle& stream) EXCLUDES(lock_);
  // Gives the node's step another content for later launches. Returns false if there is no such
  // node, or the type differs.
  bool set(CUgraphNode node, GraphContent content) EXCLUDES(lock_);
  // Replaces the contents of all steps for later launches. If nodes or dependencies are not the
  // same, changes nothing and says why.
  CUgraphExecUpdateResultInfo update(std::vector<GraphStep> steps) EXCLUDES(lock_);

 private:
  StreamHandle stream_for(const GraphContent& content, const StreamHandle& launched)
      REQUIRES(lock_);

  Mutex lock_{LockOrder::graph_exec};
  std::vector<GraphStep> steps_ GUARDED_BY(lock_);
  std::map<const Context*, StreamHandle> others_ GUARDED_BY(lock_);
  std::shared_ptr<Recording> last_ GUARDED_BY(lock_);  // the end of the last launch
};

}  // namespace wherry::impl
