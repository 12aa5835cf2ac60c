#include "faults/fault_attempt.h"

#include <algorithm>
#include <bit>

#include "migration/background_evictor.h"
#include "migration/creation.h"
#include "migration/read_ahead.h"

namespace wherry::impl {
namespace {

// How long a fault waits for its processor's view to change.
constexpr std::uint64_t view_limit_ns = 3'000'000'000;
// How long a fault waits until processors with accessed-by advice have mapped its pages.
constexpr std::uint64_t follow_limit_ns = 1'000'000'000;
// When to look again whether a system call or another process still holds pages in place, if the
// FolioSeparator, which takes such pages out of their huge page, names no time.
constexpr std::uint64_t hold_look_ns = 20'000;

}  // namespace

FaultAttempt FaultAttempts::make_attempt(Fault& fault, const LockedBlock& block,
                                         const FaultGround& ground) {
  if (fault.in_handler && needs_daemon(fault, block)) return {Outcome::not_here};
  const FaultFacts facts = facts_of(fault, block, ground);
  const std::optional<Processor> near = near_owner(fault, block, facts);
  // The access may be a sample, which only a handler thread notes.
  if (fault.in_handler && near) return {Outcome::not_here};
  if (const auto wait = wait_before_decision(block.state, facts)) return *hindrance(*wait);
  const Decision decision = decide(fault, block, facts, near);
  if (fault.in_handler && needs_daemon(fault, decision)) return {Outcome::not_here};
  const FaultPlan plan = plan_for(decision, fault, block, facts);
  if (plan.kind == FaultPlan::Kind::reserve && facts.grain > 1 && !facts.evicted) {
    // The many pages are wanted only because mappings are short (`grain`). That is no reason to
    // evict others, so the next attempt is for the page's own region only.
    fault.constraints.region_only = true;
    return {Outcome::try_again};
  }
  if (const auto hindered = hindrance(plan)) return *hindered;
  if (fault.in_handler && needs_daemon(fault, block, plan)) return {Outcome::not_here};
  FaultAttempt attempt = execute(fault, block, facts, plan);
  if (attempt.outcome != Outcome::resolved) return attempt;
  attempt.sweeps = decision.sweeps;
  try_again_after_hold(fault, block, plan);
  return attempt;
}

bool FaultAttempts::needs_daemon(const Fault& fault, const LockedBlock& block) const {
  // A change of a view needs the view switcher, and the policy needs memory for its history.
  return !block.state.is_home(fault.table, {page_in_block(fault.page), 1}) || policy_.remembers();
}

bool FaultAttempts::needs_daemon(const Fault& fault, const Decision& decision) const {
  // Advice may have been given since the first look at it. A request to the copiers needs memory.
  return effects_.advises() || decision.destination != fault.table || decision.sweeps != 0;
}

bool FaultAttempts::needs_daemon(const Fault& fault, const LockedBlock& block,
                                 const FaultPlan& plan) const {
  const Decision& decision = plan.decision;
  // Creating a huge page, entering it or splitting one may need memory, or other locks.
  if (plan.ends_copies && engine_.must_separate(block, PageMask::of(decision.region))) return true;
  if (plan.kind == FaultPlan::Kind::map)
    return engine_.entries().may_enter_whole(block, fault.table);
  const PageRun comes{0, static_cast<unsigned>(plan.pages)};
  return engine_.is_huge_page(comes, decision.destination) ||
         engine_.must_separate(block, plan.transfer.pages);
}

// ---- facts

FaultFacts FaultAttempts::facts_of(const Fault& fault, const LockedBlock& block,
                                   const FaultGround& ground) const {
  const Processor p = fault.processor;
  const Capacity& capacity = engine_.at(p).capacity;
  FaultFacts facts;
  facts.faulting_processor = p;
  facts.table = fault.table;
  facts.coherent = engine_.coherent();
  facts.block = block.index;
  facts.page = page_in_block(fault.page);
  facts.processors = engine_.processors();
  facts.write = fault.message.write;
  facts.now_ns = ground.now_ns;
  facts.stretch = ground.stretch;
  facts.fault_ns = costs_.fault_ns.get();
  facts.page_ns = costs_.page_ns.get();
  // The host's pool keeps no pages free, because nothing is evicted from it.
  const std::uint64_t kept = p.is_host() ? 0 : Watermarks::of(capacity.pages()).low;
  const std::uint64_t taken = capacity.reserved() - fault.reservation.pages_of(capacity) + kept;
  facts.free_pages = capacity.pages() - std::min(taken, capacity.pages());
  add_block_facts(facts, block.state, ground.advice, capacity.pages(), fault.constraints);
  // Pages of a device's own memory are created only in that device's pool.
  if (ground.owner) facts.preferred = *ground.owner;
  facts.is_managed = ground.is_managed;
  if (!fault.constraints.region_only) facts.grain = grain_for(fault.table, facts.residents);
  if (facts.grain > 1) facts.present = (PageMask::of(facts.stretch) - block.state.absent()).count();
  return facts;
}

unsigned FaultAttempts::grain_for(Processor table, ProcessorMask residents) const {
  unsigned grain = 1;
  for (int i = 0; i < engine_.processors(); ++i)
    if (((residents | table.bit()) & Processor{i}.bit()) != 0)
      grain = std::max(grain, engine_.at(Processor{i}).mapper.grain());
  return grain;
}

// ---- plan

FaultPlan FaultAttempts::plan(Fault& fault, const LockedBlock& block, const FaultFacts& facts) {
  if (const auto wait = wait_before_decision(block.state, facts)) return *wait;
  return plan_for(decide(fault, block, facts, near_owner(fault, block, facts)), fault, block,
                  facts);
}

FaultPlan FaultAttempts::plan_for(const Decision& decision, Fault& fault, const LockedBlock& block,
                                  const FaultFacts& facts) {
  if (!begin_pin(fault, block.index, decision))
    return FaultPlan::waiting(FaultPlan::WaitsFor::memory);
  FaultConstraints& constraints = fault.constraints;
  constraints.reserved = fault.reservation.pages();
  constraints.space_at.reset();
  constraints.no_throttling = fault.wait.throttled_ns >= throttle_limit_ns;
  for (;;) {
    FaultPlan plan = plan_fault(block.state, facts, decision, constraints);
    // The minimum residency of the page's own region may end before that of the other pages that
    // should come with it, so only the region comes, unless whole blocks move. The wait may become
    // shorter: a residency ends soon after the thread for which the pages came is woken.
    if (plan.kind == FaultPlan::Kind::wait &&
        plan.waits_for == FaultPlan::WaitsFor::minimum_residency && !facts.moves_blocks)
      constraints.region_only = true;
    if (plan.kind != FaultPlan::Kind::reserve || !reserve(fault, facts, plan)) return plan;
    // reserve() has only now found the pool that has space, which changes the plan.
    if (plan.pages == 0) continue;
    plan.kind = FaultPlan::Kind::transfer;
    return plan;
  }
}

Decision FaultAttempts::decide(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
                               std::optional<Processor> near) {
  std::optional<Decision> in_place;
  if (near) in_place = decide_in_place(fault, block, facts, *near);
  Decision decision =
      in_place ? *in_place : decide_fault(rules_, policy_, block.state, facts, fault.constraints);
  if (fault.sample && decision.cause == MoveCause::fault) decision.cause = MoveCause::sample;
  // Blocks that are brought ahead must not take the place of pages that may be needed sooner.
  const bool has_space = facts.free_pages >= (ReadAhead::blocks_max + 1) * pages_per_block;
  if (!reads_ahead_ || !has_space) decision.sweeps = 0;
  return decision;
}

std::optional<Processor> FaultAttempts::near_owner(const Fault& fault, const LockedBlock& block,
                                                   const FaultFacts& facts) {
  const ProcessorMask near = facts.residents & facts.sharing();
  if (!facts.table.is_host() || facts.coherent == 0 || near == 0) return std::nullopt;
  // Not all sources of faults tell a write to a protected page from one to a page without an entry.
  if (facts.write && block.state.at(facts.table).write_protected.test(facts.page))
    return std::nullopt;
  return closest_of(near, fault.processor);
}

std::optional<Decision> FaultAttempts::decide_in_place(Fault& fault, const LockedBlock& block,
                                                       const FaultFacts& facts, Processor owner) {
  if (facts.mapped.test(facts.page)) {
    if (!fault.sample)
      fault.sample = samples_->note(block, fault.processor, owner, fault.allocated->id)
                         ? Fault::Sample::moves
                         : Fault::Sample::stays;
    if (fault.sample == Fault::Sample::moves) return std::nullopt;
    return Decision{.destination = owner, .region = {facts.page, 1}, .reason = Reason::resident};
  }
  // A block that was evicted comes back only into free space. Else the devices would take turns to
  // evict blocks that they all use; samples decide whether the block is worth another one's place.
  const bool is_evicted = (block.state.evicted_from & fault.processor.bit()) != 0;
  const bool has_space = facts.free_pages >= facts.stretch.count;
  // The block has just come to this pool, and the thread has faulted before its view was changed.
  // If the policy were asked, several users would take the block from each other all the time.
  const bool arrives = !owner.is_host() || block.state.view(fault.table, facts.page) != owner;
  if (is_evicted ? has_space : !arrives) return std::nullopt;
  return Decision{.destination = owner, .region = facts.stretch, .reason = Reason::resident};
}

bool FaultAttempts::begin_pin(Fault& fault, BlockIndex block, const Decision& decision) {
  if (decision.cause != MoveCause::thrash_pin) return true;
  if (!decision.pin_begins && !fault.owes_pin) return true;
  fault.owes_pin =
      !pins_.begin(block, decision.region, decision.destination, decision.pin_until_ns);
  return !fault.owes_pin;
}

bool FaultAttempts::reserve(Fault& fault, const FaultFacts& facts, FaultPlan& plan) {
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

// ---- execute

std::optional<FaultAttempt> FaultAttempts::hindrance(const FaultPlan& plan) {
  switch (plan.kind) {
    case FaultPlan::Kind::wait:
      return FaultAttempt{
          .outcome = Outcome::waits, .waits_for = plan.waits_for, .until_ns = plan.until_ns};
    case FaultPlan::Kind::reserve:
      return FaultAttempt{.outcome = Outcome::space_needed,
                          .destination = plan.decision.destination,
                          .pages = plan.pages,
                          .is_for_many = plan.is_for_many};
    case FaultPlan::Kind::refuse:
      return FaultAttempt{.outcome = Outcome::full};
    case FaultPlan::Kind::transfer:
    case FaultPlan::Kind::map:
      break;
  }
  return std::nullopt;
}

FaultAttempt FaultAttempts::execute(Fault& fault, const LockedBlock& block, const FaultFacts& facts,
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
  if (!effects_.follow(block, decision.region) && fault.wait.waited.ns() < follow_limit_ns)
    return {Outcome::not_yet};
  note_decision(fault, facts, decision, origin);
  return {Outcome::resolved, block.span_of(decision.region)};
}

std::optional<FaultAttempt> FaultAttempts::carry(Fault& fault, const LockedBlock& block,
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
      if (facts.grain == 1) return FaultAttempt{.outcome = Outcome::no_memory, .destination = to};
      fault.constraints.region_only = true;
      return FaultAttempt{Outcome::try_again};
    }
  }
  // Linux has said "try again", perhaps because of a message that this very handler has to read.
  if (!page_done) return FaultAttempt{Outcome::not_yet};
  return std::nullopt;
}

void FaultAttempts::note_transfer(Fault& fault, std::uint64_t pages, std::uint64_t ns) {
  fault.transfer_ns += ns;
  // For few pages the time is mainly that of the system call.
  if (pages >= pages_per_region) costs_.page_ns.add(ns / pages);
}

bool FaultAttempts::fill(Fault& fault, const LockedBlock& block, const Decision& decision) {
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

std::optional<FaultAttempt> FaultAttempts::show(Fault& fault, const LockedBlock& block,
                                                const Decision& decision) {
  const Processor p = fault.table;
  const unsigned page = page_in_block(fault.page);
  const Processor at = decision.destination;
  if (block.state.view(p, page) != at) {
    const PageMask there = PageMask::of(decision.region) & block.state.at(at).resident;
    switch (effects_.show(block, there, p)) {
      case AdviceEffects::Shown::yes:
        break;  // the view shows another copy of the page
      case AdviceEffects::Shown::pending:
        if (fault.wait.waited.ns() < view_limit_ns) return FaultAttempt{Outcome::not_yet};
        // The view is late because others are changed first, or a device hangs. The thread must not
        // get a signal for that, so the page goes to the pool that the view shows.
        [[fallthrough]];
      case AdviceEffects::Shown::declined:
        // A pinned or held page cannot move to the pool that the view shows. Its fault waits until
        // the view can change, for example because other pages free mappings.
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
// entry. Entering a page that has an entry changes nothing.
PageMask FaultAttempts::pages_to_enter(const Fault& fault, const LockedBlock& block,
                                       PageRun region) {
  const Processor p = fault.table;
  const unsigned page = page_in_block(fault.page);
  const Processor seen = block.state.view(p, page);
  // If a page of a huge entry is not mapped any more, Linux has removed the whole entry.
  const bool lost_whole = (block.state.entered_whole & p.bit()) != 0 &&
                          block.state.at(p).mapped.test(page) &&
                          engine_.entries().was_taken(block, page, p);
  if (lost_whole) block.state.entered_whole &= ~p.bit();
  // With a coarse grain, the mapper may have removed access to pages that the state calls mapped.
  const PageMask known = engine_.at(p).mapper.grain() > 1 ? PageMask{} : block.state.at(p).mapped;
  const PageMask wanted = lost_whole ? ~block.state.in_flight() : PageMask::of(region) - known;
  const PageMask missing = (wanted & block.state.viewed(p, seen) & block.state.at(seen).resident) -
                           block.state.switching(p);
  return missing.test(page) ? missing : PageMask::of({page, 1});
}

Fault::Origin FaultAttempts::origin_of(const Block& block, const FaultFacts& facts,
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

void FaultAttempts::note_decision(const Fault& fault, const FaultFacts& facts,
                                  const Decision& decision, const Fault::Origin& origin) {
  // Only the page's entry was missing, so nothing was decided about the page's place.
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

void FaultAttempts::try_again_after_hold(const Fault& fault, const LockedBlock& block,
                                         const FaultPlan& plan) {
  const FaultConstraints& constraints = fault.constraints;
  const bool lacks_space = constraints.no_space && constraints.space_is_held;
  if (!constraints.held && !lacks_space) return;
  const FolioSeparator& separator = engine_.separator();
  const std::uint64_t retry =
      constraints.held ? separator.retry_at(block.index) : separator.next_retry();
  pins_.hold(block.index, plan.decision.region, retry != 0 ? retry : clock_() + hold_look_ns);
}

}  // namespace wherry::impl
