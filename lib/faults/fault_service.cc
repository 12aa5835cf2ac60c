#include "faults/fault_service.h"

#include <algorithm>
#include <new>
#include <utility>

#include "faults/faults_in_place.h"

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

// What a sampled access waits beside the work of the handler: until that has read the message, and
// until the woken thread runs.
constexpr std::uint64_t round_trip_ns = 10'000;

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

Fault FaultService::take(Processor table, const FaultMessage& message,
                         const std::optional<MemoryChanges>& before) {
  const Processor p = shared_.attached != nullptr && table.is_host()
                          ? shared_.attached->processor_of(static_cast<pid_t>(message.thread))
                          : table;
  // Addresses outside the arena are treated as its last page, which is never allocated.
  const PageIndex last = page_at_offset(layout_.bytes()) - 1;
  Fault fault(p, table, message, layout_.page_of(message.address).value_or(last), clock_);
  fault.changes_before = before;
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
    finish(fault, attempt.wake);
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

// Catches std::bad_alloc, because no exception may leave a signal handler or a handler thread. A
// handler thread then postpones the fault; a signal handler posts the fault to the daemon.
FaultService::Attempt FaultService::attempt(Fault& fault) {
  const BlockIndex index = block_of(fault.page);
  try {
    Block& state = blocks_.at(index);
    if (!fault.in_handler) {
      const LockedBlock block(index, state, fault.waiter);
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
  const FaultPlan plan = executor_.plan(fault, block, found.facts, found.decision);
  switch (plan.kind) {
    case FaultPlan::Kind::wait:
      return wait(fault, plan, found.facts);
    case FaultPlan::Kind::reserve:
      if (found.facts.grain == 1 || found.facts.evicted) return Attempt::space_needed(plan);
      // Nothing is evicted only because mappings are short.
      fault.constraints.region_only = true;
      return {Outcome::try_again};
    case FaultPlan::Kind::transfer:
      // To create a huge page, or to enter it, may need more than a signal handler may do.
      if (fault.in_handler && (engine_.is_huge_page({0, static_cast<unsigned>(plan.pages)},
                                                    plan.decision.destination) ||
                               engine_.must_separate(block, plan.transfer.pages)))
        return {Outcome::not_here};
      break;
    case FaultPlan::Kind::map:
      if (fault.in_handler && engine_.entries().may_enter_whole(block, fault.table))
        return {Outcome::not_here};
      break;
    case FaultPlan::Kind::refuse:
      return {Outcome::full};
  }
  // So may a split of a huge page.
  if (fault.in_handler && plan.ends_copies &&
      engine_.must_separate(block, PageMask::of(plan.decision.region)))
    return {Outcome::not_here};
  const Attempt attempt = executor_.execute(fault, block, found.facts, plan);
  if (attempt.outcome == Outcome::resolved) try_again_after_hold(fault, block, plan);
  return attempt;
}

// What was mapped remotely because of a holder faults again some time later.
void FaultService::try_again_after_hold(const Fault& fault, const LockedBlock& block,
                                        const FaultPlan& plan) {
  const FaultConstraints& constraints = fault.constraints;
  const bool lacks_space = constraints.no_space && constraints.space_is_held;
  if (!constraints.held && !lacks_space) return;
  const FolioSeparator& separator = engine_.separator();
  const std::uint64_t retry =
      constraints.held ? separator.retry_at(block.index) : separator.next_retry();
  temporary_pins_.hold(block.index, plan.decision.region,
                       retry != 0 ? retry : clock_() + moment_ns);
}

// ---- gather

std::optional<FaultService::Attempt> FaultService::gather(Fault& fault, const LockedBlock& block,
                                                          Gathered& found) {
  classify(fault, block.state);
  // A change of a view needs the view switcher.
  if (fault.in_handler && !block.state.is_home(fault.table, {page_in_block(fault.page), 1}))
    return Attempt{Outcome::not_here};
  const auto allocation = address_space_.find(offset_of(fault.page));
  if (!allocation) return Attempt{Outcome::unallocated};
  if (!audiences_.admits(allocation->owner.audience(), fault.processor))
    return Attempt{Outcome::foreign};
  // When the memory is not managed any more, its addresses are unallocated, and the thread accesses
  // them again.
  if (allocation->withdraws) {
    Attempt attempt{Outcome::not_yet, {}, clock_() + moment_ns};
    attempt.waits_for_progress = true;
    return fault.in_handler ? Attempt{Outcome::not_here} : attempt;
  }
  // Nothing is done for another allocation; a thread that waits after all accesses the page again.
  if (fault.allocation_id.value_or(allocation->id) != allocation->id)
    return Attempt{Outcome::resolved, {fault.page, 1}};
  fault.allocation_id = allocation->id;
  found.facts = facts_of(fault, *allocation, block);
  if (const auto plan = plan_wait(block.state, found.facts)) return wait(fault, *plan, found.facts);
  if (const auto owner = near_owner(fault, block, found.facts)) {
    // A sample is noted once, by a handler thread.
    if (fault.in_handler) return Attempt{Outcome::not_here};
    if (const auto decision =
            decide_in_place(fault, block, found.facts, *owner, *shared_.samples)) {
      found.decision = *decision;
      return std::nullopt;
    }
  }
  // The policy needs memory to remember.
  if (fault.in_handler && policy_.remembers()) return Attempt{Outcome::not_here};
  found.decision = decide_fault(rules_, policy_, block.state, found.facts, fault.constraints);
  const Decision& decision = found.decision;
  // Advice may have been given since the first look at it.
  if (fault.in_handler && (effects_.advises() || decision.destination != fault.table))
    return Attempt{Outcome::not_here};
  answers_.end_throttle(fault, found.facts.now_ns);
  note_sweep(fault, found, *allocation);
  // A request to the copiers needs memory.
  if (fault.in_handler && fault.sweeps != 0) return Attempt{Outcome::not_here};
  if (decision.cause == MoveCause::thrash_pin && (decision.pin_begins || fault.owes_pin)) {
    fault.owes_pin = !temporary_pins_.begin(block.index, decision.region, decision.destination,
                                            decision.pin_until_ns);
    if (fault.owes_pin) return Attempt{Outcome::not_yet, {}, found.facts.now_ns + memory_pause_ns};
  }
  return std::nullopt;
}

// Nothing is brought ahead that would take the place of what may be needed sooner.
void FaultService::note_sweep(Fault& fault, const Gathered& found, const Allocation& allocation) {
  const bool has_space = found.facts.free_pages >= (ReadAhead::blocks_max + 1) * pages_per_block;
  fault.sweeps = read_ahead_ != nullptr && has_space ? found.decision.sweeps : 0;
  fault.allocation = allocation.pages();
}

void FaultService::classify(Fault& fault, const Block& block) const {
  FaultMessage& message = fault.message;
  if (message.kind_known) return;
  const unsigned page = page_in_block(fault.page);
  const bool mapped = block.at(fault.table).mapped.test(page);
  message.write_protect = mapped && message.write;
  message.minor =
      !message.write_protect && block.at(block.view(fault.table, page)).resident.test(page);
  message.kind_known = true;
}

FaultFacts FaultService::facts_of(const Fault& fault, const Allocation& allocation,
                                  const LockedBlock& block) const {
  const Processor p = fault.processor;
  const AdviceMap::Segment segment = effects_.advice_at(fault.page);
  FaultFacts facts;
  facts.faulting_processor = p;
  facts.table = fault.table;
  facts.coherent = engine_.coherent();
  facts.page = page_in_block(fault.page);
  facts.write = fault.message.write;
  facts.now_ns = clock_();
  facts.block = block.index;
  facts.processors = engine_.processors();
  facts.fault_ns = costs_.fault_ns.get();
  facts.page_ns = costs_.page_ns.get();
  facts.free_pages = executor_.free_pages(p, fault.reservation);
  facts.stretch = run_in_block(block.index, intersect(allocation.pages(), segment.span));
  complete_facts(facts, block.state, segment.value, engine_.at(p).capacity.pages(),
                 fault.constraints);
  // Pages of a device's own memory that no program has got yet are created only in its pool, too.
  if (allocation.owner.device) facts.preferred = *allocation.owner.device;
  facts.is_managed = allocation.owner.is_managed();
  if (!fault.constraints.region_only) facts.grain = grain_for(fault.table, facts.residents);
  if (facts.grain > 1) facts.present = (PageMask::of(facts.stretch) - block.state.absent()).count();
  return facts;
}

unsigned FaultService::grain_for(Processor table, ProcessorMask residents) const {
  unsigned grain = 1;
  for (int i = 0; i < engine_.processors(); ++i)
    if (((residents | table.bit()) & Processor{i}.bit()) != 0)
      grain = std::max(grain, engine_.at(Processor{i}).mapper.grain());
  return grain;
}

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
      // Its own region may be free earlier than all that should come with it, unless that moves as
      // one. A thread that has not been woken yet will be soon, and the residency is shorter then.
      fault.constraints.region_only = fault.constraints.region_only || !facts.moves_blocks;
      attempt.due = std::min(plan.until_ns, facts.now_ns + moment_ns);
      break;
  }
  return attempt;
}

// ---- after an attempt, without the lock

void FaultService::finish(Fault& fault, PageSpan wake) {
  answers_.finish(fault, wake);
  if (!fault.sample) return;
  // A move is not the sample's cost: the policy has decided that it pays.
  const bool stays = fault.sample == Fault::Sample::stays;
  shared_.samples->note_cost(round_trip_ns + (stays ? clock_() - fault.taken_ns : 0));
}

FaultService::Continuation FaultService::continue_after(Fault& fault, const Attempt& attempt) {
  switch (attempt.outcome) {
    case Outcome::resolved:
      finish(fault, attempt.wake);
      if (fault.sweeps != 0)
        read_ahead_->request(fault.processor, block_of(fault.page), fault.sweeps, fault.allocation);
      return Later{};
    case Outcome::not_yet:
      fault.waits_for_progress = attempt.waits_for_progress;
      return put_off(fault, attempt.due != 0 ? attempt.due : soon(), "the page never came free");
    case Outcome::unallocated:
      return answer_unallocated(fault);
    case Outcome::foreign:
      return answer_foreign(fault);
    case Outcome::full:
      // The next attempt looks for space in the fault's own pool again: pages that other requests
      // had reserved may have come by then, and can be evicted.
      fault.constraints.no_space = false;
      if (!std::exchange(fault.left_line, false))
        return put_off_for_memory(fault, no_space_anywhere_.c_str());
      // No other pool has space either: back to the line.
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
  if (attempt.outcome == Outcome::space_needed) {
    status = evictor_.reserve(request, fault.reservation);
    // Nothing leaves the host's pool, and the pages of a device have no space there.
    if (status == OpStatus::no_memory) status = OpStatus::absent;
  } else if (!p.is_host() && evictor_.evict_one(request) == OpStatus::ok) {
    // The pages of the device's own pool may have taken its node's memory. Memory of the host's
    // nodes can only be reclaimed by Linux.
    status = OpStatus::ok;
  }
  if (status == OpStatus::ok) return Next::at_once;
  if (status == OpStatus::no_memory)
    return put_off_for_memory(fault, "no memory is left for the page");
  FaultConstraints& constraints = fault.constraints;
  if (status == OpStatus::held) constraints.space_is_held = true;
  const bool is_full = status == OpStatus::absent || status == OpStatus::held;
  if (constraints.no_space) {
    // The page is wanted here only because the view could not change. What hindered that (an
    // overdue device, too many mappings) may be over.
    constraints.keep_view = false;
    return is_full ? put_off(fault, soon(), no_space_anywhere_.c_str()) : put_off_in_line(fault, p);
  }
  if (is_full) {
    constraints.narrow_for_space(attempt.is_for_many);
    return Next::at_once;
  }
  constraints.region_only = true;
  if (fault.waited.ns() < line_limit_ns) return put_off_in_line(fault, p);
  constraints.no_space = fault.left_line = true;
  return Next::at_once;
}

FaultService::Continuation FaultService::answer_unallocated(Fault& fault) {
  if (!stale_faults_.is_of_freed(fault)) {
    answers_.let_try_again(fault);
    return Later{};
  }
  const auto dead = address_space_.retire_if_dead(fault.page);
  // The memory has been allocated in the meantime.
  if (!dead) return Next::at_once;
  answers_.refuse(fault, *dead, "no live allocation is there (freed, or never allocated)");
  return Later{};
}

FaultService::Continuation FaultService::answer_foreign(Fault& fault) {
  if (stale_faults_.is_of_foreign(fault))
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
  return put_off(fault, later(fault), no_space_anywhere_.c_str());
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
