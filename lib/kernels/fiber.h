// A fiber: a stack and a place to continue, with which a thread of a block can wait. Boost.Context
// switches between fibers of one worker.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace wherry::impl {

using FiberBody = void (*)(boost::context::detail::transfer_t);

// The place where a fiber, or the worker's own stack, goes on when it is resumed.
class Fiber {
 public:
  Fiber() = default;  // the calling thread's own stack
  // Begins with body() at the first switch. `stack` is its lowest address.
  void prepare(std::byte* stack, std::size_t bytes, FiberBody body) {
    context_ = boost::context::detail::make_fcontext(stack + bytes, bytes, body);
  }

  // Leaves this fiber, which runs now, for `next`. Returns when something switches back.
  void switch_to(Fiber& next) {
    came_from(boost::context::detail::jump_fcontext(next.context_, this));
  }
  // Call this first in a body, and with what a switch returns: stores where the left fiber
  // continues.
  static void came_from(boost::context::detail::transfer_t from) {
    static_cast<Fiber*>(from.data)->context_ = from.fctx;
  }

 private:
  boost::context::detail::fcontext_t context_ = nullptr;
};

}  // namespace wherry::impl
