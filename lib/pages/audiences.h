// Audiences: which processors may access an allocation. Each allocation names its audience by
// number. The audience of managed memory is all processors. The audience of a device's own memory
// is the device and the processors that it granted peer access. Memory of a memory pool has its
// pool's audience.
//
// The object lies in memory that device processes map too. It is read without a lock, also in
// signal handlers.
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
  // A thread that calls admits() under a lock which it took after one of these calls sees the
  // change.
  void admit(unsigned audience, ProcessorMask processors) {
    masks_[audience].fetch_or(processors);
    changes_.fetch_add(1);
  }
  void exclude(unsigned audience, ProcessorMask processors) {
    masks_[audience].fetch_and(~processors);
    changes_.fetch_add(1);
  }
  // Starts the audience anew, with these members.
  void begin(unsigned audience, ProcessorMask processors) {
    masks_[audience] = processors;
    changes_.fetch_add(1);
  }
  // Number of changes of all audiences so far.
  std::uint64_t changes() const { return changes_.load(); }

 private:
  std::array<std::atomic<ProcessorMask>, end> masks_{};
  std::atomic<std::uint64_t> changes_{0};
};
static_assert(std::atomic<ProcessorMask>::is_always_lock_free);

}  // namespace wherry::impl
