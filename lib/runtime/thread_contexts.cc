#include "runtime/thread_contexts.h"

#include "runtime/driver.h"

namespace wherry::impl {

ThreadContexts& ThreadContexts::mine() {
  thread_local ThreadContexts contexts;
  return contexts;
}

// The streams' work still finishes.
ThreadContexts::~ThreadContexts() {
  if (Driver::current() == nullptr) return;  // a forked child: the engines are not ours
  for (const OwnStream& own : streams_) {
    Driver::current()->captures().forget(*own.stream);
    if (const auto context = own.context.lock()) context->device.engine.destroy_stream(own.stream);
  }
}

CUcontext ThreadContexts::pop() {
  const CUcontext top = stack_.back();
  stack_.pop_back();
  return top;
}

void ThreadContexts::set(CUcontext context) {
  if (!stack_.empty()) stack_.pop_back();
  if (context != nullptr) stack_.push_back(context);
}

std::shared_ptr<Stream> ThreadContexts::default_stream(const std::shared_ptr<Context>& context) {
  std::erase_if(streams_, [](const OwnStream& own) { return own.context.expired(); });
  for (const OwnStream& own : streams_) {
    if (own.context.lock() == context) return own.stream;
  }
  auto stream = context->device.engine.create_stream(context->work, StreamKind::blocking);
  streams_.push_back({context, stream});
  return stream;
}

}  // namespace wherry::impl
