// Which processors may touch what. Every allocation has an audience, by its number: managed memory
// that of everybody, memory of a device's own that of the device with those whom its peers let in,
// memory of a pool that of the pool. In memory that device processes see too; read without a lock,
// also in signal handlers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

class Audiences {
 public:
  static constexpr unsigned everybody = 0;
  static constexpr unsigned of_device(Processor device) {
    return static_cast<unsigned>(device.index);
  }
  static constexpr unsigned first_other = max_processors;
  static constexpr unsigned end = 127;

  Audiences() {
    masks_[everybody] = ~ProcessorMask{0};
    for (int i = 1; i < max_processors; ++i) masks_[of_device({i})] = Processor{i}.bit();
  }

  bool admits(unsigned audience, Processor p) const {
    return (masks_[audience].load(std::memory_order_relaxed) & p.bit()) != 0;
  }
  // What is asked under a lock that is taken after one of these sees it.
  void admit(unsigned audience, Processor p) {
    masks_[audience].fetch_or(p.bit());
    changes_.fetch_add(1);
  }
  void exclude(unsigned audience, Processor p) {
    masks_[audience].fetch_and(~p.bit());
    changes_.fetch_add(1);
  }
  // Has nobody else in it.
  void begin(unsigned audience, Processor p) {
    masks_[audience] = p.bit();
    changes_.fetch_add(1);
  }
  // How often any audience has changed.
  std::uint64_t changes() const { return changes_.load(); }

 private:
  std::array<std::atomic<ProcessorMask>, end> masks_{};
  std::atomic<std::uint64_t> changes_{0};
};
static_assert(std::atomic<ProcessorMask>::is_always_lock_free);

}  // namespace wherry::impl
