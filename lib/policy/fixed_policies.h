// Policies with one fixed rule, as baselines for comparisons.
#pragma once

#include "policy/policy.h"

namespace wherry::impl {

// The page migrates to the faulting processor: the behaviour when no rule has an opinion.
class MigrateAlways final : public Policy {
 public:
  Opinion on_fault(const FaultFacts&, std::unique_ptr<BlockHistory>&) const override { return {}; }
};

// The page stays at the processor that accessed it first, and other processors map it there.
class FirstTouch final : public Policy {
 public:
  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>&) const override {
    if (facts.residents == 0) return {};
    return {.destination = closest_of(facts.residents, facts.faulting_processor)};
  }
};

// The page is created in the host's pool, and devices map it there. A page that is elsewhere stays
// there.
class RemoteAlways final : public Policy {
 public:
  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>&) const override {
    if (facts.residents == 0) return {.destination = Processor::host()};
    return {.destination = closest_of(facts.residents, facts.faulting_processor)};
  }
};

}  // namespace wherry::impl
