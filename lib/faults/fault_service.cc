#include "faults/fault_service.h"

#include <new>

namespace wherry::impl {
namespace {

using Outcome = FaultAttempt::Outcome;

// After so many attempts in a row, because other threads change the page, a fault is postponed.
constexpr int attempts_max = 8;

// The service that resolve_own_fault() uses: a signal handler can reach it only through a static
// variable. It is set before the trap gets the function; the trap's release store and acquire load
// of the function order the two.
FaultService* of_signal_handlers = nullptr;

bool resolve_own_fault(const FaultMessage& message) {
  return of_signal_handlers->resolve_in_handler(message);
}

}  // namespace

InThreadResolver FaultService::in_thread_resolver() {
  of_signal_handlers = this;
  return resolve_own_fault;
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
    const FaultAttempt attempt = this->attempt(fault);
    if (attempt.outcome == Outcome::try_again) continue;
    if (attempt.outcome != Outcome::resolved) return false;
    answers_.finish(fault, attempt.wake);
    return true;
  }
  return false;
}

std::optional<std::uint64_t> FaultService::resolve(Fault& fault) {
  waits_.end_wait(fault);
  FaultNext next;
  for (int i = 0; i < attempts_max; ++i) {
    next = respond(fault, attempt(fault));
    if (next.step != FaultNext::Step::attempt) break;
  }
  if (next.step == FaultNext::Step::attempt)
    next = waits_.wait_a_moment(fault, "others changed the page all the time");
  return next.step == FaultNext::Step::put_off ? std::optional(next.due) : std::nullopt;
}

void FaultService::let_try_again(Fault& fault) {
  waits_.end_wait(fault);
  answers_.let_try_again(fault);
}

// ---- an attempt, under the block's lock

// Catches std::bad_alloc, because no exception may leave a signal handler or a handler thread. A
// handler thread then postpones the fault; a signal handler posts the fault to the daemon.
FaultAttempt FaultService::attempt(Fault& fault) {
  const BlockIndex index = block_of(fault.page);
  try {
    Block& state = blocks_.at(index);
    if (!fault.in_handler) {
      const LockedBlock block(index, state, fault.waiter);
      return attempt_locked(fault, block);
    }
    // Reading advice would need another lock, which a signal handler must not take.
    if (effects_.advises() || !state.lock.try_lock()) return {Outcome::not_here};
    const LockedBlock block(index, state, std::adopt_lock);
    return attempt_locked(fault, block);
  } catch (const std::bad_alloc&) {
    if (fault.in_handler) return {Outcome::not_here};
    return {.outcome = Outcome::waits, .waits_for = FaultPlan::WaitsFor::memory};
  }
}

FaultAttempt FaultService::attempt_locked(Fault& fault, const LockedBlock& block) {
  classify(fault, block.state);
  const auto allocation = address_space_.find(offset_of(fault.page));
  if (!allocation) return {Outcome::unallocated};
  if (!audiences_.admits(allocation->owner.audience(), fault.processor)) return {Outcome::foreign};
  // The fault waits until the memory is not managed any more. Then the thread accesses it again.
  if (allocation->withdraws) return {fault.in_handler ? Outcome::not_here : Outcome::withdrawn};
  if (!fault.allocated) fault.allocated = {allocation->id, allocation->pages()};
  // The page belongs to another allocation now. If the thread still waits, it is woken and accesses
  // the page again.
  if (fault.allocated->id != allocation->id) return {Outcome::resolved, {fault.page, 1}};
  const AdviceMap::Segment segment = effects_.advice_at(fault.page);
  const PageSpan alike = intersect(allocation->pages(), segment.span);
  const FaultGround ground{.now_ns = clock_(),
                           .stretch = run_in_block(block.index, alike),
                           .advice = segment.value,
                           .owner = allocation->owner.device,
                           .is_managed = allocation->owner.is_managed()};
  return attempts_.make_attempt(fault, block, ground);
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

// ---- after an attempt, without the lock

FaultNext FaultService::respond(Fault& fault, const FaultAttempt& attempt) {
  switch (attempt.outcome) {
    case Outcome::resolved:
      answers_.finish(fault, attempt.wake);
      if (attempt.sweeps != 0)
        read_ahead_->request(fault.processor, block_of(fault.page), attempt.sweeps,
                             fault.allocated->pages);
      return FaultNext::answered();
    case Outcome::waits:
      return waits_.wait_as_planned(fault, attempt);
    case Outcome::not_yet:
      return waits_.wait_a_moment(fault, "the page never came free");
    case Outcome::withdrawn:
      return waits_.wait_for_progress(fault);
    case Outcome::full:
      return waits_.wait_for_any_space(fault);
    case Outcome::space_needed:
    case Outcome::no_memory:
      return waits_.make_space(fault, attempt);
    case Outcome::unallocated:
      return answers_.answer_unallocated(fault) ? FaultNext::answered() : FaultNext::attempt();
    case Outcome::foreign:
      answers_.answer_foreign(fault);
      return FaultNext::answered();
    case Outcome::lost:
      answers_.refuse(
          fault, "its pool lost the page (failed memory, or the file was changed from outside)");
      return FaultNext::answered();
    case Outcome::try_again:
    case Outcome::not_here:  // only in a signal handler
      break;
  }
  return FaultNext::attempt();
}

}  // namespace wherry::impl
