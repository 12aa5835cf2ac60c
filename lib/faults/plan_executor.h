// Plans one attempt on a fault, with the space that the plan needs, and carries the plan out with
// the page engine. The fault service calls it for the faults of a live run, and a replay for those
// of a recorded one. Never waits. Every call is made under the block's lock.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "faults/fault.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "policy/fault_costs.h"
#include "policy/fault_plan.h"

namespace wherry::impl {

// What has become of an attempt on a fault.
struct FaultAttempt {
  enum class Outcome {
    resolved,      // the page is mapped, or no process is left that wants it: wake
    try_again,     // the constraints or the state have changed: plan again
    not_yet,       // look again at `due`
    space_needed,  // reserve `pages` pages at `destination`
    unallocated,   // no live allocation covers the page
    foreign,       // the faulting processor must not access the page
    full,          // no pool has space for the page
    no_memory,     // Linux has no page for the destination
    lost,          // Linux has lost the page that the pool held
    not_here,      // in a signal handler only: the fault has to be posted
  };

  Outcome outcome = Outcome::resolved;
  PageSpan wake = {};
  std::uint64_t due = 0;  // 0: soon
  Processor destination = {};
  std::uint64_t pages = 0;
  bool is_for_many = false;         // space for more than the page's own region
  bool waits_for_progress = false;  // not_yet: what it waits for goes on and will end

  // The plan's reservation failed.
  static FaultAttempt space_needed(const FaultPlan& plan) {
    return {.outcome = Outcome::space_needed,
            .destination = plan.decision.destination,
            .pages = plan.pages,
            .is_for_many = plan.is_for_many};
  }
};

class PlanExecutor {
 public:
  // `costs`: where the cost of carried pages is noted. All outlive the executor.
  PlanExecutor(PageEngine& engine, AdviceEffects& effects, FaultCosts& costs, Clock clock)
      : engine_(engine), effects_(effects), costs_(costs), clock_(clock) {}

  // The space in p's pool before anything is evicted. `reservation` counts as space.
  std::uint64_t free_pages(Processor p, const Reservation& reservation) const;
  // The plan for the next attempt. The fault's reservation grows to what the plan needs. If that
  // fails, the plan is to reserve; or to refuse, if a page has to be created and no pool has space.
  FaultPlan plan(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                 const Decision& decision) REQUIRES(block.state.lock);
  // Carries out a plan to transfer or to map.
  FaultAttempt execute(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                       const FaultPlan& plan) REQUIRES(block.state.lock);

 private:
  using Outcome = FaultAttempt::Outcome;

  // False: there is no space.
  bool reserve(Fault& fault, const FaultFacts& facts, FaultPlan& plan);
  // Those that return an optional return nothing when their part is done.
  std::optional<FaultAttempt> carry(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                                    const FaultPlan& plan) REQUIRES(block.state.lock);
  void note_transfer(Fault& fault, std::uint64_t pages, std::uint64_t ns);
  // Creates the pages of the decision's region that are absent, if there is space. False: none.
  bool fill(Fault& fault, const LockedBlock& block, const Decision& decision)
      REQUIRES(block.state.lock);
  // Has the page in the faulting processor's view and page table.
  std::optional<FaultAttempt> show(Fault& fault, const LockedBlock& block, const Decision& decision)
      REQUIRES(block.state.lock);
  // Which pages of the region to enter in p's page table.
  PageMask pages_to_enter(const Fault& fault, const LockedBlock& block, PageRun region)
      REQUIRES(block.state.lock);
  static Fault::Origin origin_of(const Block& block, const FaultFacts& facts,
                                 const Decision& decision) REQUIRES(block.lock);
  void note_decision(const Fault& fault, const FaultFacts& facts, const Decision& decision,
                     const Fault::Origin& origin);

  PageEngine& engine_;
  AdviceEffects& effects_;
  FaultCosts& costs_;
  const Clock clock_;
};

}  // namespace wherry::impl
