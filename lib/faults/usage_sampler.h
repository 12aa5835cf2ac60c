// Finds out who uses the memory of coherent devices. A page that is mapped does not fault, and the
// host and coherent devices share one page table. So the sampler's thread now and then removes
// entries of a few blocks and keeps the pages: the next access faults, with the id of its thread,
// and the fault service learns who made it (faults/access_samples.h).
//
// The time that samples take has a budget, a share of the CPU time of the program. It pays for the
// sampler's own CPU time and for the time that accessing threads wait. While samples find their
// blocks in place, they become rarer (faults/sample_pace.h). A launch, or the attachment or end of
// a thread, marks a phase, in which the program may use its memory in another way.
#pragma once

#include <atomic>
#include <cstdint>
#include <random>
#include <thread>

#include "base/time_allowance.h"
#include "faults/access_samples.h"
#include "faults/sample_pace.h"
#include "migration/page_engine.h"
#include "migration/pin_gate.h"
#include "pages/block_directory.h"
#include "trap/attached_threads.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class UsageSampler {
 public:
  // All outlive the sampler. `host` changes the host's view.
  struct Parts {
    PageEngine& engine;
    BlockDirectory& blocks;
    ViewChanger& host;
    AccessSamples& samples;
    const AttachedThreads& attached;
    PinGate& pins;
  };

  struct Limits {
    unsigned budget_per_mille = 0;  // in thousandths of the program's CPU time; not 0
    // Samples are taken, for a recording, as often as the budget permits, even if no move is
    // possible.
    bool always = false;
  };
  UsageSampler(const Parts& parts, const Limits& limits);
  ~UsageSampler();
  // Starts the thread. Call it once.
  void start();

  // Samples the block of this page now: all of it, or the first page that is mapped from this one
  // on. For tests. Any thread, but not under a block's lock, nor in a thread that resolves faults.
  void sample(PageIndex page) EXCLUDES(parts_.pins.lock);

 private:
  void work();
  // Whether pages can be in the wrong pool at all.
  bool may_gain() const;
  // Removes entries of up to `most` blocks, which is at most ViewChanger::runs_max.
  void take_samples(std::size_t most) EXCLUDES(parts_.pins.lock);
  // Chooses the entries of the block to remove: all, or those of the first mapped page from `page`
  // on. Returns nullopt if the block cannot be sampled now.
  std::optional<PageSpan> begin_sample(BlockIndex index, unsigned page) REQUIRES(parts_.pins.lock);

  const Parts parts_;
  const bool always_;
  TimeAllowance allowance_;
  std::minstd_rand random_;
  BlockIndex next_{0};
  std::atomic<bool> stopping_{false};
  Notifier notifier_;
  std::thread thread_;
};

}  // namespace wherry::impl
