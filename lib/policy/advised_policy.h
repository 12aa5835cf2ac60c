// What the documentation of the advice says, and where it leaves room what NVIDIA's driver does; without
// advice: the page goes to whoever touched it. It brings along its natural, aligned region (64 KiB
// unless configured), as far as its allocation and equal advice reach. What was evicted together had been used, and comes
// back together: that costs one fault instead of one for each region. Where the trap needs a coarser grain the region grows to
// it, and what is nowhere of it is created, since holes divide mappings; but no block is created for the sake of a few pages:
// sparse data would take many times the memory that it needs.
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
    const PageRun brought = returns || stays_elsewhere ? facts.stretch : region(facts);
    return {to, brought, duplicate, fills(facts, to)};
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

  static constexpr unsigned dense_share = 4;

  PageRun region(const FaultFacts& facts) const {
    const unsigned pages = std::max(region_pages_, grain(facts));
    const unsigned first = facts.page & ~(pages - 1);
    const unsigned low = std::max(first, facts.stretch.first);
    const unsigned high = std::min(first + pages, facts.stretch.end());
    return {low, high - low};
  }

  // Where a first touch would have them, and pinned ones come nowhere but by one.
  static bool fills(const FaultFacts& facts, Processor to) {
    if (facts.grain == 1 || facts.pinned || facts.grain > creation_grain(facts)) return false;
    FaultFacts first_touch = facts;
    first_touch.residents = 0;
    return destination(first_touch) == to;
  }

  static unsigned grain(const FaultFacts& facts) {
    return facts.residents == 0 ? creation_grain(facts) : facts.grain;
  }
  static unsigned creation_grain(const FaultFacts& facts) {
    const bool sparse = facts.present < facts.stretch.count / dense_share;
    return sparse ? std::min<unsigned>(facts.grain, pages_per_region) : facts.grain;
  }

  unsigned region_pages_;
};

}  // namespace wherry::impl
