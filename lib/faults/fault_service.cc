#include "faults/fault_service.h"

#include <algorithm>
#include <new>
#include <utility>

#include "faults/watchers.h"
#include "migration/background_evictor.h"
#include "migration/creation.h"

namespace wherry::impl {
namespace {

// A fault that has to look again so often, because other threads change the page, is put off.
constexpr int attempts_max = 8;
constexpr std::uint64_t moment_ns = 20'000;
// How long a fault waits in vain before its thread gets a signal. This only bounds what a broken
// invariant, or memory that never comes, can cost: the thread does not hang.
constexpr std::uint64_t life_limit_ns = 10'000'000'000;
// Without memory a fault is given up after so many attempts, and not before so much time.
constexpr int memory_attempts_max = 20;
constexpr std::uint64_t memory_limit_ns = 1'000'000'000;
constexpr std::uint64_t memory_pause_ns = 5'000'000;
// Pauses grow with the time that the fault has waited, to this part of it.
constexpr std::uint64_t pause_max_ns = 1'000'000;
constexpr unsigned pause_share = 16;
// How long a fault waits for space while no page comes free. Then its page stays where it is, or is
// created where there is space.
constexpr std::uint64_t line_limit_ns = 2'000'000'000;
// How long a fault waits for its processor's view to change.
constexpr std::uint64_t view_limit_ns = 3'000'000'000;
// How long a fault waits until advised processors have mapped its pages.
constexpr std::uint64_t follow_limit_ns = 1'000'000'000;

// To carry more pages takes longer than to wake another handler.
constexpr unsigned pages_carried_fast = 4 * pages_per_region;

constexpr const char* no_space_anywhere =
    "all pools are full (free memory, or raise WHERRY_HOST_CAPACITY or a device's capacity)";

// The service that resolve_own_fault() uses: a signal handler can reach it only through a static
// variable. Set before the trap gets the function, whose store and load order the two.
FaultService* of_signal_handlers = nullptr;

bool resolve_own_fault(const FaultMessage& message) {
  return of_signal_handlers->resolve_in_handler(message);
}

}  // namespace

InThreadResolver FaultService::in_thread_resolver() {
  of_signal_handlers = this;
  return resolve_own_fault;
}

std::uint64_t FaultService::soon() const {
  return clock_() + moment_ns;
}

std::uint64_t FaultService::later(const Fault& fault) const {
  const std::uint64_t now = clock_();
  return now + std::clamp((now - fault.taken_ns) / pause_share, moment_ns, pause_max_ns);
}

void FaultService::expect_delay(const Fault& fault) {
  if (fault.watchers != nullptr) fault.watchers->call_up_one();
}

Fault FaultService::take(Processor faulting_processor, const FaultMessage& message) {
  // Addresses outside the arena are treated as its last page, which is never allocated.
  const std::uint64_t last = layout_.bytes() / page_size - 1;
  Fault fault(faulting_processor, message, layout_.page_of(message.address).value_or(last), clock_);
  if (message.kind_known) answers_.count_once(fault);
  return fault;
}

bool FaultService::resolve_in_handler(const FaultMessage& message) {
  Fault fault = take(Processor::host(), message);
  fault.in_handler = true;
  for (int i = 0; i < attempts_max; ++i) {
    const Attempt attempt = this->attempt(fault);
    if (attempt.outcome == Outcome::try_again) continue;
    if (attempt.outcome != Outcome::resolved) return false;
    answers_.finish(fault, attempt.wake);
    return true;
  }
  return false;
}

std::optional<std::uint64_t> FaultService::resolve(Fault& fault) {
  if (fault.was_put_off) note_wait(fault);
  fault.waits_for_progress = false;
  for (int i = 0; i < attempts_max; ++i) {
    const Continuation next = continue_after(fault, attempt(fault));
    if (const auto* const later = std::get_if<Later>(&next)) return later->due;
  }
  return put_off(fault, soon(), "others changed the page all the time").due;
}

// Linux may have no memory for the bookkeeping. No exception may leave a signal handler, or a
// handler thread.
FaultService::Attempt FaultService::attempt(Fault& fault) {
  const BlockIndex index = block_of(fault.page);
  try {
    Block& state = blocks_.at(index);
    if (!fault.in_handler) {
      if (!state.lock.try_lock()) {
        expect_delay(fault);
        state.lock.lock();
      }
      const LockedBlock block(index, state, std::adopt_lock, fault.waiter);
      return attempt_locked(fault, block);
    }
    // The effects of advice, and evictions, may need more than a signal handler may do.
    if (effects_.advises() || !state.lock.try_lock()) return {Outcome::not_here};
    const LockedBlock block(index, state, std::adopt_lock);
    return attempt_locked(fault, block);
  } catch (const std::bad_alloc&) {
    if (fault.in_handler) return {Outcome::not_here};
    return {Outcome::not_yet, {}, clock_() + memory_pause_ns};
  }
}

FaultService::Attempt FaultService::attempt_locked(Fault& fault, const LockedBlock& block) {
  Gathered found;
  if (const auto hindered = gather(fault, block, found)) return *hindered;
  FaultConstraints& constraints = fault.constraints;
  constraints.reserved = fault.reservation.pages();
  constraints.space_at.reset();
  constraints.no_throttling = fault.throttled_ns >= throttle_limit_ns;
  for (;;) {
    FaultPlan plan = plan_fault(block.state, found.facts, found.decision, constraints);
    switch (plan.kind) {
      case FaultPlan::Kind::wait:
        return wait(fault, plan, found.facts);
      case FaultPlan::Kind::reserve:
        if (const auto hindered = reserve(fault, plan, found.facts)) return *hindered;
        // Where there is space has been found only now: that changes the plan.
        if (plan.pages == 0) continue;
        plan.kind = FaultPlan::Kind::transfer;
        return execute(fault, block, found.facts, plan);
      case FaultPlan::Kind::transfer:
      case FaultPlan::Kind::map:
        return execute(fault, block, found.facts, plan);
      case FaultPlan::Kind::refuse:
        return {Outcome::full};
    }
  }
}

// ---- gather

std::optional<FaultService::Attempt> FaultService::gather(Fault& fault, const LockedBlock& block,
                                                          Gathered& found) {
  classify(fault, block.state);
  // A change of a view needs the view switcher.
  if (fault.in_handler && !block.state.is_home(fault.processor, {fault.page_in_block(), 1}))
    return Attempt{Outcome::not_here};
  const auto allocation = address_space_.find(fault.page * page_size);
  if (!allocation) return Attempt{Outcome::unallocated};
  if (!audiences_.admits(allocation->owner.audience(), fault.processor))
    return Attempt{Outcome::foreign};
  found.facts = facts_of(fault, *allocation, block);
  if (const auto plan = plan_wait(block.state, found.facts)) return wait(fault, *plan, found.facts);
  // The policy needs memory to remember.
  if (fault.in_handler && policy_.remembers()) return Attempt{Outcome::not_here};
  found.decision = decide(fault, block, found.facts);
  const Decision& decision = found.decision;
  // Advice may have been given since the first look at it.
  if (fault.in_handler && (effects_.advises() || decision.destination != fault.processor))
    return Attempt{Outcome::not_here};
  answers_.end_throttle(fault, found.facts.now_ns);
  if (decision.cause == MoveCause::thrash_pin && (decision.pin_begins || fault.owes_pin)) {
    fault.owes_pin = !temporary_pins_.begin(block.index, decision.region, decision.destination,
                                            decision.pin_until_ns);
    if (fault.owes_pin) return Attempt{Outcome::not_yet, {}, found.facts.now_ns + memory_pause_ns};
  }
  return std::nullopt;
}

void FaultService::classify(Fault& fault, const Block& block) const {
  FaultMessage& message = fault.message;
  if (message.kind_known) return;
  const unsigned page = fault.page_in_block();
  const bool mapped = block.at(fault.processor).mapped.test(page);
  message.write_protect = mapped && message.write;
  message.minor =
      !message.write_protect && block.at(block.view(fault.processor, page)).resident.test(page);
  message.kind_known = true;
}

FaultFacts FaultService::facts_of(const Fault& fault, const Allocation& allocation,
                                  const LockedBlock& block) const {
  const Processor p = fault.processor;
  const AdviceMap::Segment segment = effects_.advice_at(fault.page);
  const bool may_bring_more = !fault.constraints.region_only;
  FaultFacts facts;
  facts.faulting_processor = p;
  facts.page = fault.page_in_block();
  facts.write = fault.message.write;
  facts.now_ns = clock_();
  facts.block = block.index;
  facts.processors = engine_.processors();
  facts.held = block.state.at(p).resident;
  facts.mapped = block.state.at(p).mapped;
  facts.fault_ns = answers_.costs().fault_ns.get();
  facts.page_ns = answers_.costs().page_ns.get();
  facts.free_pages = free_pages(p, fault.reservation);
  facts.residents = block.state.residents(facts.page);
  facts.read_mostly = segment.value.read_mostly;
  if (!segment.value.preferred.is_none()) facts.preferred = segment.value.preferred.processor();
  // Pages of a device's own memory that no program has got yet are created only in its pool, too.
  if (allocation.owner.device) facts.preferred = *allocation.owner.device;
  facts.is_managed = allocation.owner.is_managed();
  facts.accessed_by = segment.value.accessed_by;
  facts.pinned = segment.value.pinned;
  facts.stretch = run_in_block(block.index, intersect(allocation.pages(), segment.span));
  facts.evicted = may_bring_more && (block.state.evicted_from & p.bit()) != 0 &&
                  Replacement::returns_as_one(facts.stretch, engine_.at(p).capacity.pages());
  if (may_bring_more) facts.grain = grain_for(p, facts.residents);
  if (facts.grain > 1) facts.present = (PageMask::of(facts.stretch) - block.state.absent()).count();
  return facts;
}

std::uint64_t FaultService::free_pages(Processor p, const Reservation& reservation) const {
  const Capacity& capacity = engine_.at(p).capacity;
  // Nothing is evicted from the host's pool.
  const std::uint64_t kept = p.is_host() ? 0 : Watermarks::of(capacity.pages()).low;
  const std::uint64_t taken = capacity.reserved() - reservation.pages_of(capacity) + kept;
  return capacity.pages() - std::min(taken, capacity.pages());
}

unsigned FaultService::grain_for(Processor faulting_processor, ProcessorMask residents) const {
  unsigned grain = 1;
  for (int i = 0; i < engine_.processors(); ++i)
    if (((residents | faulting_processor.bit()) & Processor{i}.bit()) != 0)
      grain = std::max(grain, engine_.at(Processor{i}).mapper.grain());
  return grain;
}

Decision FaultService::decide(Fault& fault, const LockedBlock& block,
                              const FaultFacts& facts) const {
  Opinion opinion;
  if (AdviceRules::leaves_room(facts)) opinion = policy_.on_fault(facts, block.state.history);
  if (fault.constraints.region_only && opinion.region)
    opinion.region = aligned_part(*opinion.region, facts.page, pages_per_region);
  return rules_.decide(facts, opinion);
}

// ---- execute

FaultService::Attempt FaultService::wait(Fault& fault, const FaultPlan& plan,
                                         const FaultFacts& facts) {
  Attempt attempt{Outcome::not_yet, {}, facts.now_ns + moment_ns};
  switch (plan.waits_for) {
    case FaultPlan::WaitsFor::view_change:
      break;
    case FaultPlan::WaitsFor::transfer:
      // That may take long: other faults may need the space more.
      fault.reservation.release();
      attempt.due = later(fault);
      attempt.waits_for_progress =
          engine_.transfers().is_live({fault.page, 1}, fault.message.thread);
      break;
    case FaultPlan::WaitsFor::policy:
      answers_.begin_throttle(fault, facts.now_ns);
      fault.reservation.release();
      attempt.due = plan.until_ns;
      break;
    case FaultPlan::WaitsFor::minimum_residency:
      // Its own region may be free earlier than all that should come with it. A thread that has not
      // been woken yet will be soon, and the residency is shorter then.
      fault.constraints.region_only = true;
      attempt.due = std::min(plan.until_ns, facts.now_ns + moment_ns);
      break;
  }
  return attempt;
}

std::optional<FaultService::Attempt> FaultService::reserve(Fault& fault, const FaultPlan& plan,
                                                           const FaultFacts& facts) {
  FaultConstraints& constraints = fault.constraints;
  const PageRun region = plan.decision.region;
  if (plan.pages == 0) {
    for (const PageRun wanted : {region, PageRun{facts.page, 1}}) {
      constraints.space_at = reserve_anywhere(engine_, wanted.count, fault.reservation);
      constraints.space_for = wanted;
      if (constraints.space_at) break;
    }
    if (!constraints.space_at) return Attempt{Outcome::full};
    constraints.reserved_at = *constraints.space_at;
  } else {
    const Processor to = plan.decision.destination;
    if (!fault.reservation.try_grow(engine_.at(to).capacity, plan.pages)) {
      if (facts.grain > 1 && !facts.evicted) {
        // Nothing is evicted only because mappings are short.
        constraints.region_only = true;
        return Attempt{Outcome::try_again};
      }
      return Attempt{Outcome::space_needed, {}, 0, to, plan.pages, plan.is_for_many};
    }
    constraints.reserved_at = to;
  }
  constraints.reserved = fault.reservation.pages();
  return std::nullopt;
}

FaultService::Attempt FaultService::execute(Fault& fault, const LockedBlock& block,
                                            const FaultFacts& facts, const FaultPlan& plan) {
  const Decision& decision = plan.decision;
  const Fault::Origin origin = fault.origin.value_or(origin_of(block.state, facts, decision));
  if (plan.kind == FaultPlan::Kind::transfer)
    if (const auto hindered = transfer_pages(fault, block, facts, plan)) return *hindered;
  if (plan.begins_residency) {
    fault.origin = origin;
    block.state.minimum_residency.begin(decision.region, fault.processor, facts.now_ns);
  }
  if (plan.ends_copies) engine_.collapse(block, decision.region, decision.destination);
  if (facts.write && facts.read_mostly && decision.destination.is_host())
    effects_.settle_on_host(block, decision.region);
  const bool filled = decision.fills && fill(fault, block, decision);
  if (plan.is_there || filled || !block.state.at(fault.processor).mapped.test(facts.page))
    if (const auto hindered = show(fault, block, decision)) return *hindered;
  if (!effects_.follow(block, decision.region) && fault.waited.ns() < follow_limit_ns)
    return {Outcome::not_yet, {}, soon()};
  note_decision(fault, facts, decision, origin);
  return {Outcome::resolved, block.span_of(decision.region)};
}

std::optional<FaultService::Attempt> FaultService::transfer_pages(Fault& fault,
                                                                  const LockedBlock& block,
                                                                  const FaultFacts& facts,
                                                                  const FaultPlan& plan) {
  const Decision& decision = plan.decision;
  const TransferPlan& transfer = plan.transfer;
  const Processor to = decision.destination;
  Reservation& space = fault.reservation;
  if (transfer.pages.count() > pages_carried_fast) expect_delay(fault);
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
    answers_.note_transfer(fault, pages, clock_() - begun_ns);
    page_done = page_done || (facts.page >= run.first && facts.page < run.first + pages);
    if (result.status == OpStatus::process_gone) {
      // The faulting thread has ended with its process.
      if (to == fault.processor) return Attempt{Outcome::resolved};
      fault.entry = Entry::none;
      return Attempt{Outcome::try_again};
    }
    if (result.status == OpStatus::no_memory && !page_done) {
      if (facts.grain == 1) return Attempt{Outcome::no_memory, {}, 0, to};
      fault.constraints.region_only = true;
      return Attempt{Outcome::try_again};
    }
  }
  // Linux says "try again". Its reason may be a message that this very handler has to read.
  if (!page_done) return Attempt{Outcome::not_yet, {}, soon()};
  return std::nullopt;
}

bool FaultService::fill(Fault& fault, const LockedBlock& block, const Decision& decision) {
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

std::optional<FaultService::Attempt> FaultService::show(Fault& fault, const LockedBlock& block,
                                                        const Decision& decision) {
  const Processor p = fault.processor;
  const unsigned page = fault.page_in_block();
  const Processor at = decision.destination;
  if (block.state.view(p, page) != at) {
    const PageMask there = PageMask::of(decision.region) & block.state.at(at).resident;
    switch (effects_.show(block, there, p)) {
      case AdviceEffects::Shown::yes:
        break;  // the view shows another copy
      case AdviceEffects::Shown::pending:
        if (fault.waited.ns() < view_limit_ns) return Attempt{Outcome::not_yet, {}, soon()};
        // Changes of other views, or a device that hangs, must not cost the thread.
        [[fallthrough]];
      case AdviceEffects::Shown::declined:
        // A pinned page cannot come instead; other pages may give mappings back.
        if (effects_.pinned(block.index).test(page)) return Attempt{Outcome::not_yet, {}, soon()};
        fault.constraints.keep_view = true;
        return Attempt{Outcome::try_again};
    }
  }
  const PageMask enter = pages_to_enter(fault, block, decision.region);
  engine_.note_access(block, block.state.view(p, page));
  for (const PageRun run : runs_of(enter)) {
    const OpResult result = engine_.map(block, run, p);
    if (result.status == OpStatus::process_gone) return Attempt{Outcome::resolved};
    if (result.status == OpStatus::absent) return Attempt{Outcome::lost};
    if (!result) return Attempt{Outcome::not_yet, {}, soon()};
  }
  // No other pool has a copy, and Linux says that this entry is protected.
  if (fault.message.write_protect && std::popcount(block.state.residents(page)) == 1)
    (void)engine_.at(p).mapper.write_unprotect(block.span_of({page, 1}), block.waiter);
  return std::nullopt;
}

// The faulting page is entered whatever the page state says, because Linux may have removed the
// entry. To enter what is entered already changes nothing.
PageMask FaultService::pages_to_enter(const Fault& fault, const LockedBlock& block,
                                      PageRun region) {
  const Processor p = fault.processor;
  const unsigned page = fault.page_in_block();
  const Processor seen = block.state.view(p, page);
  // With one page of a huge entry Linux has removed the whole entry.
  const bool lost_whole = fault.message.minor && (block.state.entered_whole & p.bit()) != 0 &&
                          block.state.at(p).mapped.test(page) && engine_.was_taken(block, page, p);
  if (lost_whole) block.state.entered_whole &= ~p.bit();
  // With a coarse grain, access to the region may have been taken together with access to others.
  const PageMask known = engine_.at(p).mapper.grain() > 1 ? PageMask{} : block.state.at(p).mapped;
  const PageMask wanted = lost_whole ? ~block.state.in_flight() : PageMask::of(region) - known;
  const PageMask missing = (wanted & block.state.viewed(p, seen) & block.state.at(seen).resident) -
                           block.state.switching(p);
  return missing.test(page) ? missing : PageMask::of({page, 1});
}

Fault::Origin FaultService::origin_of(const Block& block, const FaultFacts& facts,
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

void FaultService::note_decision(const Fault& fault, const FaultFacts& facts,
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

// ---- after an attempt, without the lock

FaultService::Continuation FaultService::continue_after(Fault& fault, const Attempt& attempt) {
  switch (attempt.outcome) {
    case Outcome::resolved:
      answers_.finish(fault, attempt.wake);
      return Later{};
    case Outcome::not_yet:
      fault.waits_for_progress = attempt.waits_for_progress;
      return put_off(fault, attempt.due, "the page never came free");
    case Outcome::unallocated:
      return answer_unallocated(fault);
    case Outcome::foreign:
      return answer_foreign(fault);
    case Outcome::full:
      if (!std::exchange(fault.left_line, false))
        return put_off_for_memory(fault, no_space_anywhere);
      // No other pool has space either: back to the line.
      fault.constraints.no_space = false;
      return put_off_in_line(fault, fault.processor);
    case Outcome::lost:
      answers_.refuse(
          fault, "its pool lost the page (failed memory, or the file was changed from outside)");
      return Later{};
    case Outcome::space_needed:
    case Outcome::no_memory:
      return make_space(fault, attempt);
    case Outcome::try_again:
    case Outcome::not_here:  // only in a signal handler
      break;
  }
  return Next::at_once;
}

FaultService::Continuation FaultService::make_space(Fault& fault, const Attempt& attempt) {
  const Processor p = attempt.destination;
  const ReservationRequest request{
      .at = p, .pages = attempt.pages, .for_page = fault.page, .waiter = fault.waiter};
  OpStatus status = OpStatus::no_memory;
  expect_delay(fault);
  if (attempt.outcome == Outcome::space_needed) {
    status = evictor_.reserve(request, fault.reservation);
    // Nothing leaves the host's pool, and the pages of a device have no space there.
    if (status == OpStatus::no_memory) status = OpStatus::absent;
  } else if (!p.is_host() && evictor_.evict_one(request) == OpStatus::ok) {
    // The pages of the device's own pool may have taken its node's memory. Memory of the host's
    // nodes can only be reclaimed by Linux.
    status = OpStatus::ok;
  }
  FaultConstraints& constraints = fault.constraints;
  switch (status) {
    case OpStatus::ok:
      return Next::at_once;
    case OpStatus::absent:
      if (constraints.no_space) return put_off(fault, soon(), no_space_anywhere);
      // First without what should come with the page.
      constraints.no_space = constraints.region_only || !attempt.is_for_many;
      constraints.region_only = true;
      return Next::at_once;
    case OpStatus::no_memory:
      return put_off_for_memory(fault, "no memory is left for the page");
    default:
      constraints.region_only = true;
      if (fault.waited.ns() < line_limit_ns) return put_off_in_line(fault, p);
      constraints.no_space = fault.left_line = true;
      return Next::at_once;
  }
}

FaultService::Continuation FaultService::answer_unallocated(Fault& fault) {
  if (!stale_faults_.came_back(fault)) {
    answers_.let_try_again(fault);
    return Later{};
  }
  // The memory has been allocated in the meantime.
  if (!address_space_.retire_if_dead(fault.page)) return Next::at_once;
  answers_.refuse(fault, "no live allocation is there (freed, or never allocated)");
  return Later{};
}

FaultService::Continuation FaultService::answer_foreign(Fault& fault) {
  if (stale_faults_.came_back(fault))
    answers_.refuse(
        fault, "it is another device's memory (cuMemAlloc, or a pool), which it may not access");
  else
    answers_.let_try_again(fault);
  return Later{};
}

FaultService::Later FaultService::put_off(Fault& fault, std::uint64_t due, const char* why) {
  note_wait(fault);
  fault.was_put_off = true;
  if (fault.waited.ns() < life_limit_ns || !wait_limits_applied()) return {due};
  answers_.refuse(fault, why);
  return {};
}

FaultService::Later FaultService::put_off_in_line(Fault& fault, Processor p) {
  // While pages come free, and older requests get them, this fault's turn will come.
  const std::uint64_t progress = engine_.at(p).capacity.progress();
  fault.waits_for_progress = std::exchange(fault.line_progress, progress) != progress;
  return put_off(fault, later(fault), "no room is left for the page");
}

FaultService::Later FaultService::put_off_for_memory(Fault& fault, const char* why) {
  // Linux may be reclaiming memory, and have some a moment later.
  ++fault.memory_failures;
  if (fault.memory_failures < memory_attempts_max || fault.waited.ns() < memory_limit_ns)
    return put_off(fault, clock_() + memory_pause_ns, why);
  answers_.refuse(fault, why);
  return {};
}

void FaultService::note_wait(Fault& fault) {
  if (!fault.waits_for_progress && fault.throttled_since_ns == 0)
    fault.waited.note_wait();
  else
    fault.waited.skip_wait();
}

}  // namespace wherry::impl
