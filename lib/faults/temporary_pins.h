// Temporary pins: the policy keeps pages in one pool for a while, and other processors map them
// there. When a pin ends, the processors that map the pages in another pool than their own fault
// again, and the policy decides anew. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <queue>

#include "base/clock.h"
#include "base/lock.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "os/memory/mapped_memory.h"
#include "pages/block_directory.h"
#include "policy/policy.h"

namespace wherry::impl {

class TemporaryPins {
 public:
  TemporaryPins(PageEngine& engine, AdviceEffects& effects, BlockDirectory& blocks,
                const Policy& policy, Clock clock)
      : engine_(engine), effects_(effects), blocks_(blocks), policy_(policy), clock_(clock) {}

  // Pins the pages in the pool of `at` until this time of the clock; 0 means without an end.
  // Returns false if there is no memory to remember the pin.
  bool begin(BlockIndex block, PageRun run, Processor at, std::uint64_t until_ns) EXCLUDES(lock_);
  // The pages cannot leave their pool now, because somebody holds them (FolioSeparator). At this
  // time the processors that map them in another pool than their own fault again.
  void hold(BlockIndex block, PageRun run, std::uint64_t until_ns) EXCLUDES(lock_);

  // Returns the time at which the next pin ends, or nullopt if no pin has an end.
  std::optional<std::uint64_t> next_end() const {
    const std::uint64_t end = next_end_.load(std::memory_order_relaxed);
    return end == never ? std::nullopt : std::optional(end);
  }
  // Ends the pins whose time has come.
  void end_due(std::uint64_t now) EXCLUDES(lock_);

  // A thread that is about to sleep asks when it has to wake to end pins. Returns nullopt if no pin
  // has an end, or if another thread wakes by then. After the sleep the thread calls woke() with
  // the returned value.
  std::optional<std::uint64_t> wake_time();
  void woke(std::optional<std::uint64_t> time);

 private:
  struct TemporaryPin {
    std::uint64_t until_ns = 0;
    BlockIndex block;
    PageRun run;
    int tries = 0;  // how often the views were asked to change back

    bool operator<(const TemporaryPin& other) const { return until_ns > other.until_ns; }
  };

  // Returns false if there is no memory for the pin.
  [[nodiscard]] bool add(const TemporaryPin& pin) EXCLUDES(lock_);
  [[nodiscard]] bool push(const TemporaryPin& pin) REQUIRES(lock_);
  std::optional<TemporaryPin> pop_due(std::uint64_t now) EXCLUDES(lock_);
  // Asks the policy which pins of the block have ended, counts and records them. Returns the pages.
  PageMask end(const LockedBlock& block, std::uint64_t now) REQUIRES(block.state.lock);
  // Records that the pages were pinned, or unpinned, at `at`.
  void record(EventKind kind, BlockIndex block, PageRun run, Processor at) const;

  PageEngine& engine_;
  AdviceEffects& effects_;
  BlockDirectory& blocks_;
  const Policy& policy_;
  const Clock clock_;

  mutable Mutex lock_{LockOrder::temporary_pins};
  // The pin that ends first is on top.
  std::priority_queue<TemporaryPin, std::pmr::vector<TemporaryPin>> temporary_pins_ GUARDED_BY(
      lock_){std::less<TemporaryPin>(), std::pmr::vector<TemporaryPin>(&mapped_memory())};
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  std::atomic<std::uint64_t> next_end_{never};  // the top's end: read without the lock
  // When one of the sleeping threads wakes to end pins.
  std::atomic<std::uint64_t> next_wake_{never};
};

}  // namespace wherry::impl
