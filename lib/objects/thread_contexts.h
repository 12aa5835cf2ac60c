// What belongs to one thread of the application: its stack of contexts, and its own default stream
// in each context that it used. Handles only: a context that another thread destroys is simply not
// found.
#pragma once

#include <wherry/cuda.h>

#include <memory>
#include <vector>

#include "objects/device.h"

namespace wherry::impl {

class ThreadContexts {
 public:
  // The calling thread's contexts. Does not wait for the dynamic loader, as the first use of a
  // thread_local with a destructor would. Throws std::bad_alloc.
  static ThreadContexts& mine();

  // The top of the stack; null if that is empty.
  CUcontext current() const { return stack_.empty() ? nullptr : stack_.back(); }
  void push(CUcontext context) { stack_.push_back(context); }
  // Requires: the stack is not empty.
  CUcontext pop();
  // Replaces the top; null only removes it.
  void set(CUcontext context);

  // This thread's default stream in the context, made when it is first asked for.
  std::shared_ptr<Stream> default_stream(const std::shared_ptr<Context>& context);

 private:
  struct OwnStream {
    std::weak_ptr<Context> context;
    std::shared_ptr<Stream> stream;
  };

  // Ends the streams when the thread or the process ends.
  struct EndStreams;

  ThreadContexts() = default;
  ~ThreadContexts() { end_streams(); }
  // Work in the streams still finishes.
  void end_streams();

  std::vector<CUcontext> stack_;
  std::vector<OwnStream> streams_;
};

}  // namespace wherry::impl
