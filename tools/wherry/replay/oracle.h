// A policy for replays alone, which knows the future: on a fault it brings, or maps, all of the
// block that the processor touches before somebody else does, where that costs least. What other
// policies are held against.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/policy.h"
#include "replay/cost_model.h"
#include "replay/timeline.h"

namespace wherry::replay {

class Oracle final : public impl::Policy {
 public:
  // Both outlive it.
  Oracle(const Timeline& timeline, const CostModel& costs);

  // Where the replay says what is under way.
  std::uint32_t* current() { return &current_; }

  impl::Opinion on_fault(const impl::FaultFacts& facts,
                         std::unique_ptr<impl::BlockHistory>&) const override;

 private:
  // What others do with a page from now on, as far as it looks ahead.
  struct Future {
    impl::PageMask wanted;  // pages that the toucher is the next to need
    impl::PageMask barred;  // ... somebody else
    // Of the page of the fault: how often it would move if it goes to whoever touches it, how often
    // each processor touches it.
    unsigned moves = 0;
    std::array<unsigned, impl::max_processors> touches{};
  };
  Future look_ahead(const impl::FaultFacts& facts) const;
  impl::Processor cheapest_place(const impl::FaultFacts& facts, const Future& future,
                                 unsigned pages) const;

  const Timeline& timeline_;
  const CostModel& costs_;
  std::uint32_t current_ = 0;
  // The touches of each block, in the order of the record; the next block's begin at begins_[block
  // + 1].
  std::vector<std::uint32_t> touches_;
  std::vector<std::uint32_t> begins_;
};

}  // namespace wherry::replay
