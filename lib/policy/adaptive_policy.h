// Moves a page where that is expected to pay, and else has it mapped where it is: what a move costs
// is measured (FaultFacts), what it saves follows from how much slower the memory is where the page
// lies, and from how long the page stayed where it came to before. So a page that is taken away
// again soon stays, however the machine is; where all memory is equally fast nothing moves.
//
// Whatever is done, it is done for as much as is dense (policy/density_tree.h), and for whole
// blocks in a sweep over them (policy/block_streams.h). Nothing is evicted for what is touched the
// first time. docs/decisions/policies.md has the reasons.
#pragma once

#include "policy/access_costs.h"
#include "policy/block_streams.h"
#include "policy/density_tree.h"
#include "policy/policy.h"

namespace wherry::impl {

struct AdaptiveParameters {
  unsigned far_percent =
      0;  // what any other's memory takes, in percent of one's own; 0: as Reach says
  unsigned stay_costs = 100;  // what has not paid is not tried again for so many times what it
                              // costs; doubles each time
  bool prefetches = true;
  DensityTree tree;
};

class AdaptivePolicy final : public Policy {
 public:
  AdaptivePolicy(const AdaptiveParameters& parameters, const AccessCosts& access_costs);

  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const override;
  ProcessorMask on_arrival(const Arrival& arrival,
                           std::unique_ptr<BlockHistory>& history) const override;
  void on_release(PageRun run, BlockHistory& history) const override;
  PageMask end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const override;
  bool remembers() const override { return differs_; }

 private:
  // How much of the time of p's accesses to q's memory it would save to have the pages itself, in
  // percent.
  unsigned saved_percent(Processor p, Processor q) const;
  Opinion first_touch(const FaultFacts& facts, PageRun region) const;
  // What is treated as the page is.
  PageRun region(const FaultFacts& facts) const;
  Opinion stay(const FaultFacts& facts, Processor at, PageRun region, BlockHistory& history,
               std::uint64_t cost_ns) const;

  const AdaptiveParameters parameters_;
  const AccessCosts access_costs_;
  const bool differs_;  // whose memory it is makes a difference to somebody
  mutable BlockStreams streams_;
};

}  // namespace wherry::impl
