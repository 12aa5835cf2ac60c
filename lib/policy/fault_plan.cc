#include "policy/fault_plan.h"

#include <algorithm>
#include <bit>

#include "policy/replacement.h"

namespace wherry::impl {
namespace {

using Kind = FaultPlan::Kind;
using WaitsFor = FaultPlan::WaitsFor;

// The pool in which the faulting processor uses a page that does not move. Requires: some pool
// holds it.
Processor holder_for(const Block& block, const FaultFacts& facts) REQUIRES(block.lock) {
  return block.at(facts.faulting_processor).resident.test(facts.page)
             ? facts.faulting_processor
             : Processor{std::countr_zero(facts.residents)};
}

// Returns where a page goes whose destination has no space, or nullopt if it is not known yet which
// pool has space.
std::optional<Decision> place_without_space(const Block& block, const FaultFacts& facts,
                                            Decision wanted, const FaultConstraints& constraints)
    REQUIRES(block.lock) {
  if (facts.residents == 0) {
    if (!constraints.space_at) return std::nullopt;
    return Decision{*constraints.space_at, constraints.space_for, Reason::no_space};
  }
  wanted.destination = holder_for(block, facts);
  wanted.reason = Reason::no_space;
  wanted.fills = false;
  return wanted;
}

// Returns the decision for a held page, which is mapped where it is.
Decision place_where_it_is(const Block& block, const FaultFacts& facts, Decision wanted)
    REQUIRES(block.lock) {
  wanted.destination = holder_for(block, facts);
  wanted.region = aligned_part(wanted.region, facts.page, pages_per_region);
  wanted.reason = Reason::held;
  wanted.duplicate = wanted.fills = false;
  wanted.sweeps = 0;
  return wanted;
}

}  // namespace

void add_block_facts(FaultFacts& facts, const Block& block, const Advice& advice,
                     std::uint64_t capacity_pages, const FaultConstraints& constraints) {
  const Processor p = facts.faulting_processor;
  facts.held = block.at(p).resident;
  facts.mapped = block.at(facts.table).mapped;
  facts.residents = block.residents(facts.page);
  facts.read_mostly = advice.read_mostly;
  if (!advice.preferred.is_none()) facts.preferred = advice.preferred.processor();
  // "If device has a non-zero value for [...] USES_HOST_PAGE_TABLES, then this call has no effect."
  facts.accessed_by = advice.accessed_by & ~facts.coherent;
  facts.pinned = advice.pinned;
  facts.moves_blocks = !constraints.region_only && facts.coherent != 0 && facts.table.is_host();
  facts.evicted = !constraints.region_only && (block.evicted_from & p.bit()) != 0 &&
                  Replacement::returns_as_one(facts.stretch, capacity_pages);
}

Decision decide_fault(const AdviceRules& rules, const Policy& policy, Block& block,
                      const FaultFacts& facts, const FaultConstraints& constraints) {
  Opinion opinion;
  if (AdviceRules::leaves_room(facts))
    opinion = policy.on_fault(facts, block.history);
  else if (facts.read_mostly && !facts.write && !facts.pinned)
    opinion.region = policy.on_copy(facts);
  if (constraints.region_only && opinion.region)
    opinion.region = aligned_part(*opinion.region, facts.page, pages_per_region);
  return rules.decide(facts, opinion);
}

std::optional<FaultPlan> wait_before_decision(const Block& block, const FaultFacts& facts) {
  if (block.switching(facts.table).test(facts.page))
    return FaultPlan::waiting(WaitsFor::view_change);
  if (block.in_flight().test(facts.page)) return FaultPlan::waiting(WaitsFor::transfer);
  return std::nullopt;
}

FaultPlan plan_fault(const Block& block, const FaultFacts& facts, const Decision& decision,
                     const FaultConstraints& constraints) {
  if (decision.wait_until_ns > facts.now_ns && !constraints.no_throttling)
    return FaultPlan::waiting(WaitsFor::policy,
                              std::min(decision.wait_until_ns, facts.now_ns + throttle_limit_ns));

  FaultPlan plan;
  plan.decision = decision;
  Decision& to = plan.decision;
  to.region = (PageMask::of(to.region) - block.in_flight()).run_around(facts.page);
  if (constraints.no_space) {
    const auto placed = place_without_space(block, facts, to, constraints);
    if (!placed) {
      // A device's own memory can be in no other pool than the device's.
      plan.kind = facts.is_managed ? Kind::reserve : Kind::refuse;
      return plan;
    }
    to = *placed;
  }
  if (constraints.held && facts.residents != 0) to = place_where_it_is(block, facts, to);
  if (constraints.keep_view && !constraints.held && !facts.pinned) {
    to.destination = block.view(facts.table, facts.page);
    to.reason = Reason::no_mappings;
    to.region =
        aligned_part(to.region, facts.page, std::max<unsigned>(facts.grain, pages_per_region));
    to.fills = false;
  }

  plan.is_there = block.at(to.destination).resident.test(facts.page);
  const bool has_copies = std::popcount(facts.residents) > 1;
  // Only a fault that brings pages, or drops other processors' copies, waits for their minimum
  // residency and begins a new one.
  plan.begins_residency = !plan.is_there || (facts.write && has_copies);
  plan.ends_copies = facts.write && (plan.is_there || has_copies);
  if (plan.begins_residency && facts.residents != 0) {
    const std::uint64_t end =
        block.minimum_residency.end_of(to.region, facts.faulting_processor, facts.now_ns);
    if (end > facts.now_ns) return FaultPlan::waiting(WaitsFor::minimum_residency, end);
  }
  if (plan.is_there) return plan;

  plan.transfer = plan_transfer(block, facts, to);
  const std::uint64_t wanted = plan.transfer.pages.count();
  const bool is_reserved =
      constraints.reserved_at == to.destination && constraints.reserved >= wanted;
  plan.kind = is_reserved ? Kind::transfer : Kind::reserve;
  plan.pages = wanted;
  plan.is_for_many = facts.evicted || wanted > pages_per_region;
  return plan;
}

}  // namespace wherry::impl
