// The heuristics of NVIDIA's driver, with its parameters: pages that thrash are throttled, then
// pinned temporarily (policy/thrashing.h); dense neighbourhoods come along with a page
// (policy/density_tree.h). The driver sees the faults of a sweep in batches. Wherry sees them one
// by one, so in a sweep over blocks (policy/block_streams.h) it brings the next block as a whole.
// docs/decisions/policies.md lists the differences and their reasons.
#pragma once

#include "policy/access_costs.h"
#include "policy/block_streams.h"
#include "policy/density_tree.h"
#include "policy/policy.h"
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
  UvmPolicy(const UvmParameters& parameters, const AccessCosts& access_costs)
      : parameters_(parameters), access_costs_(access_costs) {}

  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const override;
  std::optional<PageRun> on_copy(const FaultFacts& facts) const override;
  ProcessorMask on_arrival(const Arrival& arrival,
                           std::unique_ptr<BlockHistory>& history) const override;
  void on_release(PageRun run, BlockHistory& history) const override;
  PageMask end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const override;
  bool remembers() const override { return parameters_.detects_thrashing; }

 private:
  // Sets `sweeps` (Opinion::sweeps) if the block is part of a sweep.
  PageRun region(const FaultFacts& facts, Processor destination, const PageMask& thrashing,
                 int& sweeps) const;

  const UvmParameters parameters_;
  const AccessCosts access_costs_;
  mutable BlockStreams streams_;
};

}  // namespace wherry::impl
