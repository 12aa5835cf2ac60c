// What the documentation of the advice says, and where it leaves room what NVIDIA's driver does; without
// advice: the page goes to whoever touched it. It brings along its natural, aligned region (64 KiB
// unless configured), as far as its allocation and equal advice reach. What was evicted together had been used, and comes
// back together: that costs one fault instead of one for each region.
#pragma once

#include <algorithm>
#include <bit>

#include "policy/policy.h"

namespace wherry::impl {

class AdvisedPolicy final : public Policy {
 public:
  // `region_pages`: a power of two, at most a block.
  explicit AdvisedPolicy(unsigned region_pages) : region_pages_(region_pages) {}

  Decision on_fault(const FaultFacts& facts) const override {
    const bool duplicate = facts.read_mostly && !facts.write && !facts.pinned;
    const Processor to = destination(facts);
    const bool returns = facts.evicted && facts.residents != 0 && to == facts.toucher;
    // Nothing moves, and to see a whole block elsewhere costs no more than to see a part of it.
    const bool stays_elsewhere = facts.pinned && to != facts.toucher;
    return {to, returns || stays_elsewhere ? facts.stretch : region(facts), duplicate};
  }

 private:
  // In the order of precedence.
  static Processor destination(const FaultFacts& facts) {
    if (facts.pinned && facts.residents != 0) return Processor{std::countr_zero(facts.residents)};
    const auto holds = [&](Processor p) { return (facts.residents & p.bit()) != 0; };
    if (facts.read_mostly || holds(facts.toucher) || facts.preferred == facts.toucher)
      return facts.toucher;
    if (facts.residents == 0) return facts.preferred.value_or(facts.toucher);
    // Every processor can map every pool.
    if (facts.preferred && holds(*facts.preferred)) return *facts.preferred;
    if ((facts.accessed_by & facts.toucher.bit()) != 0)
      return Processor{std::countr_zero(facts.residents)};
    return facts.toucher;
  }

  PageRun region(const FaultFacts& facts) const {
    const unsigned first = facts.page & ~(region_pages_ - 1);
    const unsigned low = std::max(first, facts.stretch.first);
    const unsigned high = std::min(first + region_pages_, facts.stretch.end());
    return {low, high - low};
  }

  unsigned region_pages_;
};

}  // namespace wherry::impl
