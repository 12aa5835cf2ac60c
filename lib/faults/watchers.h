// Which of the fault handlers watch the sources of faults, and which rest. Linux wakes every thread
// that waits for a userfaultfd at each fault, so only a few handlers may wait: the others rest,
// each on an eventfd of its own, until a watcher calls them up.
//
// A handler that answers a fault does not watch meanwhile. If no other handler watches, a fault
// that comes in between waits for the answer's end. That is shorter than the wake-up of another
// handler, unless the answer takes long, or more faults are waiting already: then a resting handler
// is called up.
//
// Thread-safe, without locks and allocations: a handler calls up another one while it holds a
// block's lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "os/files/fd.h"

namespace wherry::impl {

class Watchers {
 public:
  // At most this many handlers: one bit each.
  static constexpr std::size_t handlers_max = 64;

  // All handlers begin as watchers. At most `waiting_max` of them, at least 1, may wait for faults
  // in Linux for long. Throws std::system_error.
  Watchers(std::size_t handlers, int waiting_max);

  // Readable when the handler is called up, or when all were told to look.
  const Fd& kick(std::size_t handler) const { return kicks_[handler]; }
  // Makes every handler's kick readable.
  void tell_all() const;

  // The calling watcher answers a fault, and watches again.
  void begin_answer() { watching_.fetch_sub(1); }
  void end_answer() { watching_.fetch_add(1); }
  // The calling watcher wants to rest. False: it goes on watching, because too few others do.
  bool try_rest(std::size_t handler);
  // Whether the handler, which rests, has been called up: it is a watcher again.
  bool is_called_up(std::size_t handler) const { return (resting_.load() & bit(handler)) == 0; }
  // The calling handler answers a fault, and that will take long: calls up a resting handler if no
  // handler watches.
  void call_up_one() { call_up_beside(0); }
  // The calling watcher has found a fault that waited for it: calls up a resting handler if no
  // other handler watches.
  void share_work() { call_up_beside(1); }

 private:
  void call_up_beside(int watching);
  static std::uint64_t bit(std::size_t handler) { return std::uint64_t{1} << handler; }

  const int waiting_max_;
  std::vector<Fd> kicks_;      // eventfds, by handler; fixed after construction
  std::atomic<int> watching_;  // includes those that were called up and are not awake yet
  std::atomic<std::uint64_t> resting_{0};  // a bit for each handler
};

}  // namespace wherry::impl
