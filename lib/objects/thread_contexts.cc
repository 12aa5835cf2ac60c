#include "objects/thread_contexts.h"

#include <utility>

#include "objects/driver.h"
#include "os/process/thread_end.h"

namespace wherry::impl {

namespace {

thread_local ThreadContexts* my_contexts = nullptr;

}  // namespace

ThreadContexts& ThreadContexts::mine() {
  static const AtThreadEnd at_end([](void* mine) {
    my_contexts = nullptr;
    delete static_cast<ThreadContexts*>(mine);
  });
  if (my_contexts == nullptr) {
    my_contexts = new ThreadContexts;
    at_end.arm(my_contexts);
  }
  return *my_contexts;
}

struct ThreadContexts::EndStreams {
  void begin() {}
  ~EndStreams() {
    if (my_contexts != nullptr) my_contexts->end_streams();
  }
};

void ThreadContexts::end_streams() {
  const std::vector<OwnStream> streams = std::exchange(streams_, {});
  if (Driver::current() == nullptr) return;  // a forked child has no engines
  for (const OwnStream& own : streams) {
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
  thread_local EndStreams at_end;
  at_end.begin();
  auto stream = context->device.engine.create_stream(context->work, StreamKind::blocking);
  streams_.push_back({context, stream});
  return stream;
}

}  // namespace wherry::impl
