// The latest evictions: which block left which pool, and for which address. If the log is full, new
// entries are dropped and counted.
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
  std::uint64_t time_ns = 0;  // when it ended, on the scale of now_ns()
  BlockIndex block;
  PageIndex for_page = {};    // the page that needed the space
  std::uint32_t moved = 0;    // pages that went to the host
  std::uint32_t dropped = 0;  // copies of pages that other pools hold, too
  Processor from{};
  bool background = false;  // ahead of need: for_page is the page that came to the pool last
};

class EvictionLog {
 public:
  static constexpr std::size_t capacity = 4096;

  // Linux commits the memory when it is written. Throws std::system_error.
  EvictionLog();
  EvictionLog(const EvictionLog&) = delete;
  EvictionLog& operator=(const EvictionLog&) = delete;

  void add(const Eviction& eviction);
  // Removes the oldest entries, as many as fit, and returns their number.
  std::size_t take(std::span<Eviction> evictions) EXCLUDES(take_lock_);
  // How many entries were dropped so far.
  std::uint64_t dropped() const { return dropped_.load(std::memory_order_relaxed); }

 private:
  using Ring = BoundedRing<Eviction>;

  const Mapping memory_;
  std::atomic<std::uint64_t> dropped_{0};
  Mutex take_lock_{LockOrder::evictions};
  Ring ring_;  // read under take_lock_
};

}  // namespace wherry::impl
