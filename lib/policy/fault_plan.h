// What a fault leads to, as a value: computed from the block's state, the facts of the fault, the
// decision of the advice rules and the policy, and the constraints that earlier attempts on the
// same fault have found. No thread, no clock, no system call: the fault service carries a plan out
// (faults/fault_attempt.h), a replay adds up what it costs (tools/wherry/replay), and a test
// compares it.
#pragma once

#include <cstdint>
#include <optional>

#include "pages/advice.h"
#include "pages/block.h"
#include "policy/advice_rules.h"
#include "policy/transfer_plan.h"

namespace wherry::impl {

// What earlier attempts on a fault have found. Each narrows what the next attempt may do.
struct FaultConstraints {
  // Bring only the page's own region: there was no space or memory for the pages that should come
  // with it, or some of those stay at other processors for a moment.
  bool region_only = false;
  // The destination's pool has no space. A page that exists stays where it is and is mapped there;
  // a page that does not exist is created where a pool has space.
  bool no_space = false;
  // Space is missing only because somebody holds the pages that could have been evicted.
  bool space_is_held = false;
  // The pool in which space was reserved for a page that does not exist, and for which pages.
  std::optional<Processor> space_at = {};
  PageRun space_for = {};
  // The processor's view of the page cannot be changed, because its process can have no more
  // mappings: the page has to come to the pool that the view shows.
  bool keep_view = false;
  // The page cannot leave its pool now, because it is a part of a huge page that somebody holds: it
  // is mapped where it is.
  bool held = false;
  // The policy has throttled the fault for as long as it may.
  bool no_throttling = false;
  // Pages that are reserved for the fault at `reserved_at`.
  std::uint64_t reserved = 0;
  Processor reserved_at = {};

  // To be called if no space can be made for the latest plan.
  void narrow_for_space(bool is_for_many) {
    // The next attempt first tries without the pages that should come with the page.
    no_space = region_only || !is_for_many;
    region_only = true;
  }
};

struct FaultPlan {
  enum class Kind {
    wait,      // until `until_ns`, for `waits_for`; then plan again
    reserve,   // `pages` pages at `decision.destination`, or anywhere; then plan again
    transfer,  // make `transfer`, then map the page
    map,       // the page is at its destination, or will be: map it at the faulting processor
    refuse,    // no pool has space for a page that has to be created
  };
  enum class WaitsFor {
    view_change,        // the faulting processor's view of the page is being changed
    transfer,           // the page is in flight
    policy,             // the policy throttles the fault
    minimum_residency,  // the page came to another processor a moment ago
    memory,             // there is none to remember a temporary pin
  };

  static FaultPlan waiting(WaitsFor what, std::uint64_t until_ns = 0) {
    FaultPlan plan;
    plan.kind = Kind::wait;
    plan.waits_for = what;
    plan.until_ns = until_ns;
    return plan;
  }

  Kind kind = Kind::map;
  WaitsFor waits_for = WaitsFor::view_change;
  std::uint64_t until_ns = 0;  // 0: look again soon
  // For `reserve`: how many pages in all; 0 means to find space anywhere, for the decision's region
  // or for the page alone.
  std::uint64_t pages = 0;
  bool is_for_many = false;  // the reservation is for more than the page's own region
  // The decision with the constraints applied: what is in flight is left out of the region.
  Decision decision;
  TransferPlan transfer;
  bool is_there = false;          // the destination's pool holds the page already
  bool begins_residency = false;  // pages come for the fault, and stay for a moment
  bool ends_copies = false;       // a write: the region's other copies are dropped
};

// Adds what the block's state and the program's advice say. Requires: the faulting processor, the
// page and its stretch are set. `capacity_pages`: of the faulting processor's pool.
void add_block_facts(FaultFacts& facts, const Block& block, const Advice& advice,
                     std::uint64_t capacity_pages, const FaultConstraints& constraints)
    REQUIRES(block.lock);

// What the advice rules and the policy decide.
Decision decide_fault(const AdviceRules& rules, const Policy& policy, Block& block,
                      const FaultFacts& facts, const FaultConstraints& constraints)
    REQUIRES(block.lock);

// Returns a plan to wait if the policy must not be asked yet, because it must not be asked twice
// for one fault. Returns nullopt if it can be asked.
std::optional<FaultPlan> wait_before_decision(const Block& block, const FaultFacts& facts)
    REQUIRES(block.lock);

// `decision`: what the advice rules have made of the facts and the policy's opinion.
FaultPlan plan_fault(const Block& block, const FaultFacts& facts, const Decision& decision,
                     const FaultConstraints& constraints) REQUIRES(block.lock);

}  // namespace wherry::impl
