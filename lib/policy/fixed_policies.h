// Policies that always do the same, to compare others with.
#pragma once

#include "policy/policy.h"

namespace wherry::impl {

// The page goes to whoever touched it: what happens where nobody has an opinion.
class MigrateAlways final : public Policy {
 public:
  Opinion on_fault(const FaultFacts&, std::unique_ptr<BlockHistory>&) const override { return {}; }
};

// The page stays where it was first touched, and others map it there.
class FirstTouch final : public Policy {
 public:
  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>&) const override {
    if (facts.residents == 0) return {};
    return {.destination = closest_of(facts.residents, facts.faulting_processor)};
  }
};

// The page is in the host's memory from its first touch on, and devices map it there; what is
// elsewhere stays there.
class RemoteAlways final : public Policy {
 public:
  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>&) const override {
    if (facts.residents == 0) return {.destination = Processor::host()};
    return {.destination = closest_of(facts.residents, facts.faulting_processor)};
  }
};

}  // namespace wherry::impl
