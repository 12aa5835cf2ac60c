// Which blocks left which pool, and for which address: what happened last, for whoever asks. Where
// nobody asks for long, what is new is dropped, and counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bounded_ring.h"
#include "base/lock.h"
#include "base/page.h"
#include "base/processor.h"
#include "os/memory/mapping.h"

namespace wherry::impl {

struct Eviction {
  std::uint64_t time_ns = 0;   // as now_ns() counts, when it was over
  BlockIndex block;            // its number
  std::uint64_t for_page = 0;  // the page that needed the room
  std::uint32_t moved = 0;     // pages that went to the host
  std::uint32_t dropped = 0;   // pages that others hold, too
  Processor from{};
  bool background = false;  // ahead of need: for_page is what came to the pool last before
};

class EvictionLog {
 public:
  static constexpr std::size_t capacity = 4096;

  // Memory is committed as it is written: nothing of it costs the start. Throws std::system_error.
  EvictionLog();
  EvictionLog(const EvictionLog&) = delete;
  EvictionLog& operator=(const EvictionLog&) = delete;

  void add(const Eviction& eviction);
  // Takes the oldest ones out, as many as there are and fit. How many.
  std::size_t take(std::span<Eviction> evictions) EXCLUDES(take_lock_);
  // How many were dropped so far.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  using Ring = BoundedRing<Eviction>;

  const Mapping memory_;
  std::atomic<std::uint64_t> dropped_{0};
  Mutex take_lock_{LockOrder::evictions};
  Ring ring_;  // read under it
};

}  // namespace wherry::impl
