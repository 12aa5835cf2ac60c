#include "faults/plan_executor.h"

#include <bit>

#include "migration/background_evictor.h"
#include "migration/creation.h"

namespace wherry::impl {
namespace {

// How long a fault waits for its processor's view to change.
constexpr std::uint64_t view_limit_ns = 3'000'000'000;
// How long a fault waits until advised processors have mapped its pages.
constexpr std::uint64_t follow_limit_ns = 1'000'000'000;

}  // namespace

std::uint64_t PlanExecutor::free_pages(Processor p, const Reservation& reservation) const {
  const Capacity& capacity = engine_.at(p).capacity;
  // Nothing is evicted from the host's pool.
  const std::uint64_t kept = p.is_host() ? 0 : Watermarks::of(capacity.pages()).low;
  const std::uint64_t taken = capacity.reserved() - reservation.pages_of(capacity) + kept;
  return capacity.pages() - std::min(taken, capacity.pages());
}

FaultPlan PlanExecutor::plan(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                             const Decision& decision) {
  FaultConstraints& constraints = fault.constraints;
  constraints.reserved = fault.reservation.pages();
  constraints.space_at.reset();
  constraints.no_throttling = fault.throttled_ns >= throttle_limit_ns;
  Decision explained = decision;
  if (fault.sample && decision.cause == MoveCause::fault) explained.cause = MoveCause::sample;
  for (;;) {
    FaultPlan plan = plan_fault(block.state, facts, explained, constraints);
    if (plan.kind != FaultPlan::Kind::reserve || !reserve(fault, facts, plan)) return plan;
    // Where there is space has been found only now: that changes the plan.
    if (plan.pages == 0) continue;
    plan.kind = FaultPlan::Kind::transfer;
    return plan;
  }
}

bool PlanExecutor::reserve(Fault& fault, const FaultFacts& facts, FaultPlan& plan) {
  FaultConstraints& constraints = fault.constraints;
  if (plan.pages != 0) {
    const Processor to = plan.decision.destination;
    if (!fault.reservation.try_grow(engine_.at(to).capacity, plan.pages)) return false;
    constraints.reserved_at = to;
  } else {
    for (const PageRun wanted : {plan.decision.region, PageRun{facts.page, 1}}) {
      constraints.space_at = reserve_anywhere(engine_, wanted.count, fault.reservation);
      constraints.space_for = wanted;
      if (constraints.space_at) break;
    }
    if (!constraints.space_at) {
      plan.kind = FaultPlan::Kind::refuse;
      return false;
    }
    constraints.reserved_at = *constraints.space_at;
  }
  constraints.reserved = fault.reservation.pages();
  return true;
}

FaultAttempt PlanExecutor::execute(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                                   const FaultPlan& plan) {
  const Decision& decision = plan.decision;
  const Fault::Origin origin = fault.origin.value_or(origin_of(block.state, facts, decision));
  if (plan.kind == FaultPlan::Kind::transfer)
    if (const auto hindered = carry(fault, block, facts, plan)) return *hindered;
  if (plan.begins_residency) {
    fault.origin = origin;
    block.state.minimum_residency.begin(decision.region, fault.processor, facts.now_ns);
  }
  if (plan.ends_copies) {
    engine_.collapse(block, decision.region, decision.destination);
    if (!block.state.at(decision.destination).resident.test(facts.page)) {
      fault.constraints.held = true;
      return {Outcome::try_again};
    }
  }
  if (facts.write && facts.read_mostly && decision.destination.is_host())
    effects_.settle_on_host(block, decision.region);
  const bool filled = decision.fills && fill(fault, block, decision);
  if (plan.is_there || filled || !block.state.at(fault.table).mapped.test(facts.page))
    if (const auto hindered = show(fault, block, decision)) return *hindered;
  if (!effects_.follow(block, decision.region) && fault.waited.ns() < follow_limit_ns)
    return {Outcome::not_yet};
  note_decision(fault, facts, decision, origin);
  return {Outcome::resolved, block.span_of(decision.region)};
}

std::optional<FaultAttempt> PlanExecutor::carry(Fault& fault, const LockedBlock& block,
                                                const FaultFacts& facts, const FaultPlan& plan) {
  const Decision& decision = plan.decision;
  const TransferPlan& transfer = plan.transfer;
  const Processor to = decision.destination;
  Reservation& space = fault.reservation;
  const Motive motive(decision.cause,
                      decision.speculates ? std::optional(facts.page) : std::nullopt);
  bool page_done = false;
  for (const PageRun run : runs_of(transfer.pages)) {
    const std::uint64_t begun_ns = clock_();
    const OpResult result =
        !transfer.exists ? engine_.populate(block, run, to, space, fault.entry, motive)
        : transfer.copy
            ? engine_.duplicate(block, run, transfer.from, to, space, fault.entry, motive)
            : engine_.migrate(block, run, transfer.from, to, space, motive, fault.entry);
    const std::uint64_t pages = result.bytes / page_size;
    note_transfer(fault, pages, clock_() - begun_ns);
    page_done = page_done || (facts.page >= run.first && facts.page < run.first + pages);
    if (result.status == OpStatus::process_gone) {
      // The faulting thread has ended with its process.
      if (to == fault.processor) return FaultAttempt{Outcome::resolved};
      fault.entry = Entry::none;
      return FaultAttempt{Outcome::try_again};
    }
    if (result.status == OpStatus::held && !page_done) {
      fault.constraints.held = true;
      return FaultAttempt{Outcome::try_again};
    }
    if (result.status == OpStatus::no_memory && !page_done) {
      if (facts.grain == 1) return FaultAttempt{Outcome::no_memory, {}, 0, to};
      fault.constraints.region_only = true;
      return FaultAttempt{Outcome::try_again};
    }
  }
  // Linux says "try again". Its reason may be a message that this very handler has to read.
  if (!page_done) return FaultAttempt{Outcome::not_yet};
  return std::nullopt;
}

void PlanExecutor::note_transfer(Fault& fault, std::uint64_t pages, std::uint64_t ns) {
  fault.transfer_ns += ns;
  // The time of one page alone is that of the system call.
  if (pages >= pages_per_region) costs_.page_ns.add(ns / pages);
}

bool PlanExecutor::fill(Fault& fault, const LockedBlock& block, const Decision& decision) {
  const Processor p = decision.destination;
  const PageMask holes = (PageMask::of(decision.region) & block.state.absent()) -
                         block.state.foreign(p) - block.state.switching(p);
  if (holes.none() || !fault.reservation.try_grow(engine_.at(p).capacity, holes.count()))
    return false;
  bool filled = false;
  for (const PageRun run : runs_of(holes))
    filled = engine_.populate(block, run, p, fault.reservation, Entry::none).bytes != 0 || filled;
  return filled;
}

std::optional<FaultAttempt> PlanExecutor::show(Fault& fault, const LockedBlock& block,
                                               const Decision& decision) {
  const Processor p = fault.table;
  const unsigned page = page_in_block(fault.page);
  const Processor at = decision.destination;
  if (block.state.view(p, page) != at) {
    const PageMask there = PageMask::of(decision.region) & block.state.at(at).resident;
    switch (effects_.show(block, there, p)) {
      case AdviceEffects::Shown::yes:
        break;  // the view shows another copy
      case AdviceEffects::Shown::pending:
        if (fault.waited.ns() < view_limit_ns) return FaultAttempt{Outcome::not_yet};
        // Changes of other views, or a device that hangs, must not cost the thread.
        [[fallthrough]];
      case AdviceEffects::Shown::declined:
        // A pinned or held page cannot come instead; other pages may give mappings back.
        if (fault.constraints.held || effects_.pinned(block.index).test(page))
          return FaultAttempt{Outcome::not_yet};
        fault.constraints.keep_view = true;
        return FaultAttempt{Outcome::try_again};
    }
  }
  engine_.note_access(block, block.state.view(p, page));
  if ((block.state.entered_whole & p.bit()) == 0 && engine_.entries().enter_whole(block, p))
    return std::nullopt;
  if (block.state.at(p).mapped.test(page) && engine_.entries().enter_whole_again(block, p))
    return std::nullopt;
  const PageMask enter = pages_to_enter(fault, block, decision.region);
  for (const PageRun run : runs_of(enter)) {
    const OpResult result = engine_.map(block, run, p);
    if (result.status == OpStatus::process_gone) return FaultAttempt{Outcome::resolved};
    if (result.status == OpStatus::absent) return FaultAttempt{Outcome::lost};
    if (!result) return FaultAttempt{Outcome::not_yet};
  }
  // No other pool has a copy, and Linux says that this entry is protected.
  if (fault.message.write_protect && std::popcount(block.state.residents(page)) == 1)
    (void)engine_.at(p).mapper.write_unprotect(block.span_of({page, 1}), block.waiter);
  return std::nullopt;
}

// The faulting page is entered whatever the page state says, because Linux may have removed the
// entry. To enter what is entered already changes nothing.
PageMask PlanExecutor::pages_to_enter(const Fault& fault, const LockedBlock& block,
                                      PageRun region) {
  const Processor p = fault.table;
  const unsigned page = page_in_block(fault.page);
  const Processor seen = block.state.view(p, page);
  // With one page of a huge entry Linux has removed the whole entry.
  const bool lost_whole = (block.state.entered_whole & p.bit()) != 0 &&
                          block.state.at(p).mapped.test(page) &&
                          engine_.entries().was_taken(block, page, p);
  if (lost_whole) block.state.entered_whole &= ~p.bit();
  // With a coarse grain, access to the region may have been taken together with access to others.
  const PageMask known = engine_.at(p).mapper.grain() > 1 ? PageMask{} : block.state.at(p).mapped;
  const PageMask wanted = lost_whole ? ~block.state.in_flight() : PageMask::of(region) - known;
  const PageMask missing = (wanted & block.state.viewed(p, seen) & block.state.at(seen).resident) -
                           block.state.switching(p);
  return missing.test(page) ? missing : PageMask::of({page, 1});
}

Fault::Origin PlanExecutor::origin_of(const Block& block, const FaultFacts& facts,
                                      const Decision& decision) {
  std::int8_t source = DecisionRecord::no_processor;
  PageMask pages = PageMask::of(decision.region);
  if (facts.residents == 0) {
    pages &= block.absent();
  } else {
    const Processor from = closest_of(facts.residents, decision.destination);
    source = index_of(from);
    pages &= block.at(from).resident;
    if (from == decision.destination) pages -= facts.mapped;
  }
  return {source, (pages | PageMask::of({facts.page, 1})).run_around(facts.page), decision.reason};
}

void PlanExecutor::note_decision(const Fault& fault, const FaultFacts& facts,
                                 const Decision& decision, const Fault::Origin& origin) {
  // Only the entry of this page was missing, which says nothing about where the page is.
  if (origin.reason == Reason::resident) return;
  engine_.recorder().decisions().add(
      {.time_ns = facts.now_ns,
       .block = facts.block,
       .run = origin.run,
       .waited_ns = facts.now_ns - fault.taken_ns,
       .faulting_processor = index_of(facts.faulting_processor),
       .source = origin.source,
       .destination = index_of(decision.destination),
       .reason = origin.reason,
       .cause = decision.cause,
       .access = facts.write ? EventAccess::write : EventAccess::read});
}

}  // namespace wherry::impl
