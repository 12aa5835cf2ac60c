// A policy for replays only, which knows the future. On a fault it moves or maps all pages of the
// block that the processor accesses before another processor does, at the place with the lowest
// cost. It is the baseline for other policies.
#pragma once

#include <cstdint>
#include <vector>

#include "policy/policy.h"
#include "replay/cost_model.h"
#include "replay/timeline.h"

namespace wherry::replay {

class Oracle final : public impl::Policy {
 public:
  // Both must outlive this object.
  Oracle(const Timeline& timeline, const CostModel& costs);

  // The replay stores the number of the timeline's current node here.
  std::uint32_t* current() { return &current_; }

  impl::Opinion on_fault(const impl::FaultFacts& facts,
                         std::unique_ptr<impl::BlockHistory>&) const override;

 private:
  // The future accesses to a block, up to the look-ahead limit.
  struct Future {
    impl::PageMask wanted;  // pages whose next access is by the faulting processor
    impl::PageMask barred;  // pages whose next access is by another processor
    // For the faulting page: how often it would move if it always moved to the faulting processor,
    // and how often each processor accesses it.
    unsigned moves = 0;
    std::array<unsigned, impl::max_processors> touches{};
  };
  Future look_ahead(const impl::FaultFacts& facts) const;
  impl::Processor cheapest_place(const impl::FaultFacts& facts, const Future& future,
                                 unsigned pages) const;

  const Timeline& timeline_;
  const CostModel& costs_;
  std::uint32_t current_ = 0;
  // The accesses of each block, in recorded order. Those of block b are from begins_[b] to
  // begins_[b + 1].
  std::vector<std::uint32_t> touches_;
  std::vector<std::uint32_t> begins_;
};

}  // namespace wherry::replay
