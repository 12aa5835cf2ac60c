// NVIDIA's driver's heuristics, with its parameters: pages that thrash are throttled, then pinned
// (policy/thrashing.h), and what is dense comes as a whole (policy/density_tree.h). What differs,
// and why, is in docs/decisions/policies.md.
#pragma once

#include "policy/density_tree.h"
#include "policy/policy.h"
#include "policy/reach.h"
#include "policy/thrashing.h"

namespace wherry::impl {

struct UvmParameters {
  bool detects_thrashing = true;
  ThrashingParameters thrashing;
  bool prefetches = true;
  DensityTree tree;
};

class UvmPolicy final : public Policy {
 public:
  UvmPolicy(const UvmParameters& parameters, const Reach& reach)
      : parameters_(parameters), reach_(reach) {}

  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const override;
  ProcessorMask on_arrival(const Arrival& arrival,
                           std::unique_ptr<BlockHistory>& history) const override;
  void on_release(PageRun run, BlockHistory& history) const override;
  PageMask end_stays(std::uint64_t now_ns, BlockHistory& history) const override;
  bool remembers() const override { return parameters_.detects_thrashing; }

 private:
  PageRun region(const FaultFacts& facts, Processor destination, const PageMask& thrashing) const;

  const UvmParameters parameters_;
  const Reach reach_;
};

}  // namespace wherry::impl
