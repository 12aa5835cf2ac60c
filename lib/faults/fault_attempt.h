// One attempt to resolve a fault: all that happens under the lock of its block.
//   facts    what the page state, the advice and the allocation say
//   plan     the advice rules and the policy decide, space is reserved, and plan_fault()
//            (policy/fault_plan.h), a pure function, makes a value of it all
//   execute  the page engine carries the plan out
// What an attempt finds missing (space, memory) is made without the lock, and the next attempt
// follows. What it finds narrows the later plans of the same fault (FaultConstraints).
//
// The fault service makes attempts on the faults of a live run, and a replay on those of a recorded
// one. Never waits.
#pragma once

#include <cstdint>
#include <optional>

#include "base/clock.h"
#include "faults/access_samples.h"
#include "faults/fault.h"
#include "faults/temporary_pins.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "policy/advice_rules.h"
#include "policy/fault_costs.h"
#include "policy/fault_plan.h"

namespace wherry::impl {

// What has become of an attempt on a fault.
struct FaultAttempt {
  enum class Outcome {
    resolved,      // the page is mapped, or no process is left that wants it: wake
    try_again,     // the constraints or the state have changed: attempt again
    waits,         // for `waits_for`, until `until_ns`
    not_yet,       // something hindered it for a moment
    space_needed,  // reserve `pages` pages at `destination`
    full,          // no pool has space for the page
    no_memory,     // Linux has no page for the destination
    lost,          // Linux has lost the page that the pool held
    unallocated,   // no live allocation covers the page
    foreign,       // the faulting processor must not access the page
    withdrawn,     // the memory will not be managed any more in a moment
    not_here,      // in a signal handler only: the fault has to be posted
  };

  Outcome outcome = Outcome::resolved;
  PageSpan wake = {};
  int sweeps = 0;  // resolved: as Opinion::sweeps, if the next blocks are to be brought ahead
  FaultPlan::WaitsFor waits_for = {};
  std::uint64_t until_ns = 0;  // 0: soon
  Processor destination = {};
  std::uint64_t pages = 0;
  bool is_for_many = false;  // space for more than the page's own region
};

// What a fault's facts are made of, beside the state of its block.
struct FaultGround {
  std::uint64_t now_ns = 0;
  PageRun stretch;  // as FaultFacts::stretch
  Advice advice;
  std::optional<Processor> owner = {};  // of a device's own memory that no program has got yet
  bool is_managed = true;               // as FaultFacts::is_managed
};

class FaultAttempts {
 public:
  // `costs`: where the cost of carried pages is noted. `samples`: null: there are no coherent
  // devices. `reads_ahead`: whether blocks are brought before they are used. All outlive this.
  FaultAttempts(PageEngine& engine, AdviceEffects& effects, TemporaryPins& pins,
                const AdviceRules& rules, const Policy& policy, AccessSamples* samples,
                bool reads_ahead, FaultCosts& costs, Clock clock)
      : engine_(engine),
        effects_(effects),
        pins_(pins),
        rules_(rules),
        policy_(policy),
        samples_(samples),
        reads_ahead_(reads_ahead),
        costs_(costs),
        clock_(clock) {}

  // All three steps. Requires: the fault has the number of its allocation.
  FaultAttempt make_attempt(Fault& fault, const LockedBlock& block, const FaultGround& ground)
      REQUIRES(block.state.lock);

  // The steps, for a replay.
  FaultFacts facts_of(const Fault& fault, const LockedBlock& block, const FaultGround& ground) const
      REQUIRES(block.state.lock);
  // The fault's reservation grows to what the plan needs. If that fails, the plan is to reserve; or
  // to refuse, if a page has to be created and no pool has space.
  FaultPlan plan(Fault& fault, const LockedBlock& block, const FaultFacts& facts)
      REQUIRES(block.state.lock);
  // What a plan that cannot be carried out now means, or nullopt: execute it.
  static std::optional<FaultAttempt> hindrance(const FaultPlan& plan);
  FaultAttempt execute(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                       const FaultPlan& plan) REQUIRES(block.state.lock);

 private:
  using Outcome = FaultAttempt::Outcome;

  // Whether a fault that its own thread handles may need what a signal handler must not do: take
  // another lock than the block's, allocate, log. Before the facts, before space is reserved, and
  // before the plan is carried out.
  bool needs_daemon(const Fault& fault, const LockedBlock& block) const REQUIRES(block.state.lock);
  bool needs_daemon(const Fault& fault, const Decision& decision) const;
  bool needs_daemon(const Fault& fault, const LockedBlock& block, const FaultPlan& plan) const
      REQUIRES(block.state.lock);

  // The coarsest grain of the processors whose mappings an answer may split.
  unsigned grain_for(Processor table, ProcessorMask residents) const;

  // `near`: what near_owner() returns.
  Decision decide(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                  std::optional<Processor> near) REQUIRES(block.state.lock);
  FaultPlan plan_for(const Decision& decision, Fault& fault, const LockedBlock& block,
                     const FaultFacts& facts) REQUIRES(block.state.lock);
  // The pool that holds the page, if that belongs to a processor that shares the faulting one's
  // page table with others; Returns nullopt in other cases, and
  // for a write to a page that has copies.
  static std::optional<Processor> near_owner(const Fault& fault, const LockedBlock& block,
                                             const FaultFacts& facts) REQUIRES(block.state.lock);
  // The decision for a fault on a page that stays in the owner's pool and only has to be mapped: a
  // sample of an access to a mapped page (faults/usage_sampler.h), or a page that has just come.
  // Notes a sample, once for each fault. nullopt: the policy decides.
  std::optional<Decision> decide_in_place(Fault& fault, const LockedBlock& block,
                                          const FaultFacts& facts, Processor owner)
      REQUIRES(block.state.lock);
  // Returns false if there is no memory to remember the pin.
  bool begin_pin(Fault& fault, BlockIndex block, const Decision& decision);
  // Returns false if there is no space.
  bool reserve(Fault& fault, const FaultFacts& facts, FaultPlan& plan);

  // Those that return an optional return nullopt when their part is done.
  std::optional<FaultAttempt> carry(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                                    const FaultPlan& plan) REQUIRES(block.state.lock);
  void note_transfer(Fault& fault, std::uint64_t pages, std::uint64_t ns);
  // Creates the pages of the decision's region that are absent, if there is space. Returns whether
  // it created any.
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
  // What was mapped remotely because of a holder faults again some time later.
  void try_again_after_hold(const Fault& fault, const LockedBlock& block, const FaultPlan& plan)
      REQUIRES(block.state.lock);

  PageEngine& engine_;
  AdviceEffects& effects_;
  TemporaryPins& pins_;
  const AdviceRules rules_;
  const Policy& policy_;
  AccessSamples* const samples_;
  const bool reads_ahead_;
  FaultCosts& costs_;
  const Clock clock_;
};

}  // namespace wherry::impl
