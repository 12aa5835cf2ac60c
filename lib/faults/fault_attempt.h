// One attempt to resolve a fault: all that happens under the lock of its block.
//   facts    what the page state, the advice and the allocation say
//   plan     the advice rules and the policy decide, space is reserved, and plan_fault()
//            (policy/fault_plan.h), a pure function, makes a value of it all
//   execute  the page engine carries the plan out
// If an attempt lacks space or memory, the caller provides it without the lock and makes the next
// attempt. What an attempt finds out narrows the later plans of the same fault (FaultConstraints).
//
// The fault service makes attempts on the faults of a live run, a replay on the faults of a
// recorded run. An attempt never waits.
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

// The result of an attempt on a fault.
struct FaultAttempt {
  enum class Outcome {
    resolved,      // the page is mapped, or no process is left that wants it: wake
    try_again,     // the constraints or the state have changed: attempt again
    waits,         // the fault waits for `waits_for`, until `until_ns`
    not_yet,       // something passing hindered the attempt: try a little later
    space_needed,  // reserve `pages` pages at `destination`
    full,          // no pool has space for the page
    no_memory,     // Linux has no page for the destination
    lost,          // Linux has lost the page that the pool held
    unallocated,   // no live allocation covers the page
    foreign,       // the faulting processor must not access the page
    withdrawn,     // the memory is about to become unmanaged
    not_here,      // in a signal handler only: post the fault to the daemon
  };

  Outcome outcome = Outcome::resolved;
  PageSpan wake = {};
  int sweeps = 0;  // not 0: bring the next blocks ahead, in this direction
  FaultPlan::WaitsFor waits_for = {};
  std::uint64_t until_ns = 0;  // 0: soon
  Processor destination = {};
  std::uint64_t pages = 0;
  bool is_for_many = false;  // the space is for more than the page's region
};

// The facts about a fault that do not come from the state of its block.
struct FaultGround {
  std::uint64_t now_ns = 0;
  PageRun stretch;  // see FaultFacts::stretch
  Advice advice;
  std::optional<Processor> owner = {};  // the device whose own memory the page is
  bool is_managed = true;               // see FaultFacts::is_managed
};

class FaultAttempts {
 public:
  // `costs` gets the measured cost of transferred pages. `samples` is null if there are no coherent
  // devices. `reads_ahead`: whether blocks are brought before they are used. All outlive this
  // object.
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

  // Takes all three steps: facts, plan, execute. Requires: fault.allocated is set.
  FaultAttempt make_attempt(Fault& fault, const LockedBlock& block, const FaultGround& ground)
      REQUIRES(block.state.lock);

  // The single steps, for a replay.
  FaultFacts facts_of(const Fault& fault, const LockedBlock& block, const FaultGround& ground) const
      REQUIRES(block.state.lock);
  // Plans, and grows the fault's reservation to what the plan needs. If that fails, the plan is to
  // reserve; or to refuse, if a page has to be created and no pool has space.
  FaultPlan plan(Fault& fault, const LockedBlock& block, const FaultFacts& facts)
      REQUIRES(block.state.lock);
  // Returns the result of a plan that cannot be executed now, or nullopt if it can.
  static std::optional<FaultAttempt> hindrance(const FaultPlan& plan);
  FaultAttempt execute(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                       const FaultPlan& plan) REQUIRES(block.state.lock);

 private:
  using Outcome = FaultAttempt::Outcome;

  // Whether a fault that its own thread handles may need what a signal handler must not do: take
  // another lock than the block's, allocate, log. Called before the facts are collected, before
  // space is reserved, and before the plan is executed.
  bool needs_daemon(const Fault& fault, const LockedBlock& block) const REQUIRES(block.state.lock);
  bool needs_daemon(const Fault& fault, const Decision& decision) const;
  bool needs_daemon(const Fault& fault, const LockedBlock& block, const FaultPlan& plan) const
      REQUIRES(block.state.lock);

  // The coarsest Mapper::grain() of the processors whose mappings an answer may split.
  unsigned grain_for(Processor table, ProcessorMask residents) const;

  // `near`: what near_owner() returns.
  Decision decide(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                  std::optional<Processor> near) REQUIRES(block.state.lock);
  FaultPlan plan_for(const Decision& decision, Fault& fault, const LockedBlock& block,
                     const FaultFacts& facts) REQUIRES(block.state.lock);
  // Returns the processor whose pool holds the page, if it is the host or a coherent device, and so
  // is the faulting processor. Returns nullopt otherwise, and for a write to a protected page.
  static std::optional<Processor> near_owner(const Fault& fault, const LockedBlock& block,
                                             const FaultFacts& facts) REQUIRES(block.state.lock);
  // Returns the decision for a fault on a page that stays in the owner's pool and only has to be
  // mapped: the fault is a sample of an access (faults/usage_sampler.h), or the page has just come.
  // Notes a sample, once for each fault. Returns nullopt if the policy has to decide.
  std::optional<Decision> decide_in_place(Fault& fault, const LockedBlock& block,
                                          const FaultFacts& facts, Processor owner)
      REQUIRES(block.state.lock);
  // Returns false if there is no memory to remember the pin.
  bool begin_pin(Fault& fault, BlockIndex block, const Decision& decision);
  // Returns false if there is no space.
  bool reserve(Fault& fault, const FaultFacts& facts, FaultPlan& plan);

  // Functions that return an optional return nullopt when their part is done.
  std::optional<FaultAttempt> carry(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                                    const FaultPlan& plan) REQUIRES(block.state.lock);
  void note_transfer(Fault& fault, std::uint64_t pages, std::uint64_t ns);
  // Creates the pages of the decision's region that are absent, if there is space. Returns whether
  // it created any.
  bool fill(Fault& fault, const LockedBlock& block, const Decision& decision)
      REQUIRES(block.state.lock);
  // Makes the faulting processor's view show the page, and enters it in the page table.
  std::optional<FaultAttempt> show(Fault& fault, const LockedBlock& block, const Decision& decision)
      REQUIRES(block.state.lock);
  // Which pages of the region to enter in p's page table.
  PageMask pages_to_enter(const Fault& fault, const LockedBlock& block, PageRun region)
      REQUIRES(block.state.lock);
  static Fault::Origin origin_of(const Block& block, const FaultFacts& facts,
                                 const Decision& decision) REQUIRES(block.lock);
  void note_decision(const Fault& fault, const FaultFacts& facts, const Decision& decision,
                     const Fault::Origin& origin);
  // If the pages are mapped remotely only because somebody holds pages (FolioSeparator), has them
  // fault again some time later.
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
