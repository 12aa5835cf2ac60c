// Migrates a page where that is expected to pay; elsewhere the faulting processor maps the page
// where it is. The cost of a move is measured (FaultFacts). The time saved follows from two things:
// how much slower the memory is in which the page lies, and how long the page stayed at its earlier
// destinations. A page that other processors soon take away again therefore stays where it is, on
// any machine. Where all memory is equally fast no page moves.
//
// Each decision covers the dense neighbourhood of the page (policy/density_tree.h), and whole
// blocks in a sweep over blocks (policy/block_streams.h). A first access never evicts. The reasons
// are in docs/decisions/policies.md.
#pragma once

#include "policy/access_costs.h"
#include "policy/block_streams.h"
#include "policy/density_tree.h"
#include "policy/policy.h"

namespace wherry::impl {

struct AdaptiveParameters {
  // Cost of an access to any other processor's memory, in percent of an access to the own memory.
  // If it is 0, the values of AccessCosts apply.
  unsigned far_percent = 0;
  // A page whose move did not pay stays for this multiple of the move's cost before a move is tried
  // again. The time doubles each time.
  unsigned stay_costs = 100;
  bool prefetches = true;
  DensityTree tree;
};

class AdaptivePolicy final : public Policy {
 public:
  AdaptivePolicy(const AdaptiveParameters& parameters, const AccessCosts& access_costs);

  Opinion on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const override;
  std::optional<PageRun> on_copy(const FaultFacts& facts) const override;
  ProcessorMask on_arrival(const Arrival& arrival,
                           std::unique_ptr<BlockHistory>& history) const override;
  void on_release(PageRun run, BlockHistory& history) const override;
  PageMask end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const override;
  bool remembers() const override { return differs_; }

 private:
  // The share of the time of p's accesses to q's memory that p would save if it held the pages
  // itself, in percent.
  unsigned saved_percent(Processor p, Processor q) const;
  Opinion first_touch(const FaultFacts& facts, PageRun region) const;
  // The run of pages around the faulting page that this decision covers. Sets `sweeps`
  // (Opinion::sweeps) if the block is part of a sweep.
  PageRun region(const FaultFacts& facts, int& sweeps) const;
  // The opinion that the page stays at `at`, as a temporary pin. Starts the pin if the region has
  // none; `cost_ns` (the cost of the move that did not pay) determines its length.
  Opinion pin_there(const FaultFacts& facts, Processor at, PageRun region, BlockHistory& history,
                    std::uint64_t cost_ns) const;

  const AdaptiveParameters parameters_;
  const AccessCosts access_costs_;
  // Whether some processor accesses another processor's memory more slowly than its own. If not, no
  // page ever moves, and no history is kept.
  const bool differs_;
  mutable BlockStreams streams_;
};

}  // namespace wherry::impl
