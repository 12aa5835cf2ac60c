// Waiting with a limit that counts only time in which this process ran.
//
// A waiter repeats two steps: it waits at most next_slice_ns(), then calls note_wait(), which
// counts the time since the previous call, but at most `look_max_ns`. Time is therefore not counted
// while the process is stopped (Ctrl-Z, a debugger, a frozen cgroup), the machine is suspended, or
// the thread gets no CPU. Objects have no lock and belong to one waiter each. Signal handlers may
// use them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

#include "base/clock.h"

namespace wherry::impl {

// The longest time that a waiter should wait between two checks, and the most that one check
// counts.
inline constexpr std::uint64_t wait_slice_ns = 50'000'000;
inline constexpr std::uint64_t look_max_ns = 4 * wait_slice_ns;

// If `applied` is false, limits that end in an error or a signal never expire. For debugging
// (WHERRY_WAIT_LIMITS=off). Device processes inherit the setting.
void apply_wait_limits(bool applied);
bool wait_limits_applied();

// How long a waiter has waited, without the time in which this process did not run.
class WaitedTime {
 public:
  explicit WaitedTime(Clock clock = now_ns) : WaitedTime(clock(), clock) {}
  // Starts at `begun_ns` on the clock's scale.
  explicit WaitedTime(std::uint64_t begun_ns, Clock clock = now_ns)
      : clock_(clock), seen_ns_(begun_ns) {}
  // Counts the time since the last check.
  void note_wait() { waited_ns_ += std::min(since_look(), look_max_ns); }
  // Does not count the time since the last check.
  void skip_wait() { (void)since_look(); }
  std::uint64_t ns() const { return waited_ns_; }

 private:
  std::uint64_t since_look() {
    const std::uint64_t now = clock_();
    const std::uint64_t since = now - seen_ns_;
    seen_ns_ = now;
    return since;
  }

  Clock clock_;
  std::uint64_t seen_ns_;
  std::uint64_t waited_ns_ = 0;
};

// What happens when the limit is reached. WHERRY_WAIT_LIMITS=off disables only `fails`.
enum class AtLimit {
  fails,    // the caller gets an error, a thread gets a signal, or a process is ended
  goes_on,  // the waiter continues in another way, and nothing is lost
};

class Patience {
 public:
  explicit Patience(std::uint64_t limit_ns, AtLimit at_limit = AtLimit::fails, Clock clock = now_ns)
      : limit_ns_(limit_ns), at_limit_(at_limit), waited_(clock) {}

  // How long the waiter may wait before its next check; 0 once the limit is reached.
  std::uint64_t next_slice_ns() const {
    if (is_endless()) return wait_slice_ns;
    return std::min(wait_slice_ns, limit_ns_ - std::min(limit_ns_, waited_.ns()));
  }
  // next_slice_ns() in whole milliseconds, rounded up, for poll(2).
  int next_slice_ms() const { return static_cast<int>((next_slice_ns() + 999'999) / 1'000'000); }
  std::chrono::nanoseconds next_slice() const { return std::chrono::nanoseconds(next_slice_ns()); }

  void note_wait() { waited_.note_wait(); }
  bool is_over() const { return !is_endless() && waited_.ns() >= limit_ns_; }
  std::uint64_t waited_ns() const { return waited_.ns(); }

 private:
  bool is_endless() const { return at_limit_ == AtLimit::fails && !wait_limits_applied(); }

  std::uint64_t limit_ns_;
  AtLimit at_limit_;
  WaitedTime waited_;
};

}  // namespace wherry::impl
