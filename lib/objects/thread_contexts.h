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
  // The calling thread's. Does not wait for the dynamic loader, which the thread's first use of an
  // object with a destructor would. Throws std::bad_alloc.
  static ThreadContexts& mine();

  // The top; null when the stack is empty.
  CUcontext current() const { return stack_.empty() ? nullptr : stack_.back(); }
  void push(CUcontext context) { stack_.push_back(context); }
  // Requires: not empty.
  CUcontext pop();
  // Replaces the top; null only takes it off.
  void set(CUcontext context);

  // This thread's default stream in the context, made when it is first asked for.
  std::shared_ptr<Stream> default_stream(const std::shared_ptr<Context>& context);

 private:
  struct OwnStream {
    std::weak_ptr<Context> context;
    std::shared_ptr<Stream> stream;
  };

  // Ends the streams when the process ends, too, or the thread.
  struct EndStreams;

  ThreadContexts() = default;
  ~ThreadContexts() { end_streams(); }
  // The streams' work still finishes.
  void end_streams();

  std::vector<CUcontext> stack_;
  std::vector<OwnStream> streams_;
};

}  // namespace wherry::impl
