// How many pages of each pool may be promised, and to what: managed memory, memory of one device,
// and memory that lies in a file of its own (the host's, and physical memory that the program maps
// by hand). A promise is made before the pages exist. So an allocation fails at once if it could
// not be had even by evicting everything, and no later access fails because too much was promised.
//
// Managed memory moves between pools: the pools together must hold all of it. The other kinds stay
// in one pool, and what they take is lost to managed memory.
//
// Any thread may call. Counters are atomic; the budget has no lock. reserve() may wait for
// evictions, and is not called under a block's lock.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/processor.h"
#include "machine/runtime_options.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"

namespace wherry::impl {

class PoolBudget {
 public:
  // All outlive this.
  PoolBudget(const RuntimeOptions& options, PageEngine& engine, Evictor& evictor)
      : options_(options), engine_(engine), evictor_(evictor) {}

  // How many pages of managed memory the pools can hold together; if the host's pool has no limit,
  // the size of the arena.
  std::uint64_t managed_pages_max() const;

  // Promises pages of a live allocation: managed, or of the device p. Returns false if they do not
  // fit.
  [[nodiscard]] bool claim_managed(std::uint64_t pages);
  [[nodiscard]] bool claim_device(Processor p, std::uint64_t pages);
  // Ends the promise. Requires: the pages are gone.
  void end_claim(const Ownership& owner, std::uint64_t pages);

  // Promises and reserves pages of p's pool for memory that lies in a file of its own. Managed
  // memory is evicted from a device's pool for it. Returns false if they do not fit.
  [[nodiscard]] bool reserve(Processor p, std::uint64_t pages);
  // Requires: the pages are gone.
  void release(Processor p, std::uint64_t pages);

  // Bytes that p's pool may hold.
  std::size_t capacity_bytes(Processor p) const;
  // Bytes of p's pool that are reserved: by pages that it holds, and by pages that are about to
  // come.
  std::size_t used_bytes(Processor p) const;

 private:
  std::atomic<std::uint64_t>& device_pages(Processor p) {
    return device_pages_[static_cast<std::size_t>(p.ordinal())];
  }
  [[nodiscard]] bool reserve_on_host(std::uint64_t pages);
  [[nodiscard]] bool reserve_on_device(Processor p, std::uint64_t pages);
  // Grows the reservation to so many pages, evicting for them.
  [[nodiscard]] bool grow(Reservation& reservation, Processor p, std::uint64_t pages);

  const RuntimeOptions& options_;
  PageEngine& engine_;
  Evictor& evictor_;
  // Each counts what is promised, including what is about to be given back because it did not fit.
  std::atomic<std::uint64_t> managed_pages_ = 0;
  std::array<std::atomic<std::uint64_t>, max_devices> device_pages_{};  // of each device's pool
  std::atomic<std::uint64_t> host_pages_ = 0;  // of the host's pool, for other than managed memory
};

}  // namespace wherry::impl
