// Decides which fault handlers watch the sources of faults, and which rest. Linux wakes every
// thread that waits for a userfaultfd at each fault, so only a few handlers may wait there: the
// others rest, each on an eventfd of its own, until they are called up.
//
// A handler that answers a fault does not watch meanwhile. If no other handler watches, a fault
// that comes in between waits for the answer's end. That takes less time than waking another
// handler, except
// - if more faults are waiting at the end of the answer: then the watcher shares the work;
// - if the answer takes long, whatever the reason: the guard looks every `guard_ns` while faults
//   are answered, and calls up one more handler as long as none watches.
//
// Thread-safe, without locks and allocations.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "os/files/fd.h"

namespace wherry::impl {

class Watchers {
 public:
  // The most handlers: `resting_` has one bit for each.
  static constexpr std::size_t handlers_max = 64;
  static constexpr std::uint64_t guard_ns = 1'000'000;

  // All handlers begin as watchers. At most `waiting_max` of them (1 or more) may wait for faults
  // in Linux for long. Throws std::system_error.
  Watchers(std::size_t handlers, int waiting_max);

  // Readable when the handler is called up, or when all were told to look.
  const Fd& kick(std::size_t handler) const { return kicks_[handler]; }
  // Readable when look() has to be called, or when all were told to look.
  const Fd& guard() const { return guard_; }
  // Makes every kick, and the guard, readable.
  void tell_all() const;

  // begin_answer(): the calling watcher answers a fault. end_answer(): it watches again.
  void begin_answer();
  void end_answer() { watching_.fetch_add(1); }
  // The calling watcher wants to rest. Returns false if it has to go on watching, because too few
  // others do.
  bool try_rest(std::size_t handler);
  // Whether the calling handler, which rests, has been called up. If so, it watches from now on.
  bool is_called_up(std::size_t handler);
  // The calling watcher has found a fault that waited for it: calls up a resting handler if no
  // other handler watches or has been called up.
  void share_work();
  // For the guard's thread: calls up a resting handler if none watches.
  void look();

 private:
  void call_up_one();
  void set_guard();
  static std::uint64_t bit(std::size_t handler) { return std::uint64_t{1} << handler; }

  const int waiting_max_;
  std::vector<Fd> kicks_;                  // eventfds, by handler; fixed after construction
  const Fd guard_;                         // a timer
  std::atomic<int> watching_;              // handlers that watch now
  std::atomic<std::uint64_t> resting_{0};  // a bit for each handler that may be called up
  std::atomic<int> called_up_{0};          // called up, but not watching yet
  std::atomic<bool> guard_is_set_{false};
};

}  // namespace wherry::impl
