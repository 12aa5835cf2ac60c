// The simple rule: the page goes to whoever touched it, and brings along its natural, aligned
// region (64 KiB unless configured), as far as the allocation reaches.
#pragma once

#include "policy/policy.h"

namespace wherry::impl {

class RegionPolicy final : public Policy {
 public:
  // `region_pages`: a power of two, at most a block.
  explicit RegionPolicy(unsigned region_pages) : region_pages_(region_pages) {}

  Decision on_fault(const FaultFacts& facts) const override {
    const unsigned first = facts.page & ~(region_pages_ - 1);
    const unsigned low = first > facts.allocation.first ? first : facts.allocation.first;
    const unsigned end = first + region_pages_;
    const unsigned high = end < facts.allocation.end() ? end : facts.allocation.end();
    return {facts.toucher, {low, high - low}};
  }

 private:
  unsigned region_pages_;
};

}  // namespace wherry::impl
