#include "objects/graph_exec.h"

#include <utility>

#include "objects/driver.h"
#include "objects/failures/refusals.h"

namespace wherry::impl {
namespace {

DeviceEngine& engine_of(const StreamHandle& stream) {
  return stream.context->device.engine;
}

// Makes later work of `next` wait for the present work of `before`.
WorkStatus follow(const StreamHandle& next, const StreamHandle& before) {
  if (next.stream == before.stream) return WorkStatus::ok;
  const auto recording = std::make_shared<Recording>();
  const WorkStatus recorded = engine_of(before).record(before.stream, recording);
  return recorded == WorkStatus::ok ? engine_of(next).wait_for(next.stream, recording) : recorded;
}

}  // namespace

GraphExec::~GraphExec() {
  for (const auto& [context, stream] : others_) engine_of(stream).destroy_stream(stream.stream);
}

StreamHandle GraphExec::stream_for(const GraphContent& content, const StreamHandle& launched) {
  const auto& context = content.context;
  if (!context || context == launched.context) return launched;
  StreamHandle& own = others_[context.get()];
  if (!own.stream)
    own = {context, context->device.engine.create_stream(context->work, StreamKind::non_blocking)};
  return own;
}

CUresult GraphExec::launch(Driver& driver, const StreamHandle& stream) {
  const LockGuard guard(lock_);
  WorkStatus status = engine_of(stream).status(*stream.context->work);
  if (status == WorkStatus::ok && last_) status = engine_of(stream).wait_for(stream.stream, last_);
  if (status != WorkStatus::ok) return refuse_status(status);
  CUresult result = CUDA_SUCCESS;
  StreamHandle at = stream;
  for (const GraphStep& step : steps_) {
    if (!step.content.work) continue;
    const StreamHandle next = stream_for(step.content, stream);
    result = refuse_status(follow(next, at));
    at = next;
    if (result == CUDA_SUCCESS) result = step.content.work(driver, at);
    if (result != CUDA_SUCCESS) break;
  }
  status = follow(stream, at);
  const auto end = std::make_shared<Recording>();
  if (status == WorkStatus::ok) status = engine_of(stream).record(stream.stream, end);
  if (status == WorkStatus::ok) last_ = end;
  return result != CUDA_SUCCESS ? result : refuse_status(status);
}

bool GraphExec::set(CUgraphNode node, GraphContent content) {
  const LockGuard guard(lock_);
  for (GraphStep& step : steps_)
    if (step.node == node && step.content.type == content.type) {
      step.content = std::move(content);
      return true;
    }
  return false;
}

CUgraphExecUpdateResultInfo GraphExec::update(std::vector<GraphStep> steps) {
  const LockGuard guard(lock_);
  if (steps.size() != steps_.size())
    return {CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED, nullptr, nullptr};
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const GraphStep& old = steps_[i];
    const GraphStep& changed = steps[i];
    CUgraphExecUpdateResult why = CU_GRAPH_EXEC_UPDATE_SUCCESS;
    if (changed.content.type != old.content.type)
      why = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    else if (changed.after != old.after)
      why = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    else if (changed.content.context != old.content.context)
      why = CU_GRAPH_EXEC_UPDATE_ERROR_PARAMETERS_CHANGED;
    if (why != CU_GRAPH_EXEC_UPDATE_SUCCESS) return {why, changed.node, nullptr};
  }
  // The steps keep the node handles of the graph that was instantiated.
  for (std::size_t i = 0; i < steps.size(); ++i) steps_[i].content = std::move(steps[i].content);
  return {CU_GRAPH_EXEC_UPDATE_SUCCESS, nullptr, nullptr};
}

}  // namespace wherry::impl
