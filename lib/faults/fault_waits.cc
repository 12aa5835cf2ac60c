#include "faults/fault_waits.h"

#include <algorithm>
#include <utility>

#include "trace/recorder.h"

namespace wherry::impl {
namespace {

using Outcome = FaultAttempt::Outcome;

constexpr std::uint64_t moment_ns = 20'000;
// How long a fault waits in vain before its thread gets a signal. This only bounds what a broken
// invariant, or memory that never comes, can cost: the thread does not hang.
constexpr std::uint64_t life_limit_ns = 10'000'000'000;
// If Linux has no memory, a fault is refused after so many attempts, but not before so much time.
constexpr int memory_attempts_max = 20;
constexpr std::uint64_t memory_limit_ns = 1'000'000'000;
constexpr std::uint64_t memory_pause_ns = 5'000'000;
// A pause is a `pause_share`th of the time that the fault has waited, but at most pause_max_ns.
constexpr std::uint64_t pause_max_ns = 1'000'000;
constexpr unsigned pause_share = 16;
// How long a fault waits for space while no page comes free. Then its page stays where it is, or is
// created where there is space.
constexpr std::uint64_t line_limit_ns = 2'000'000'000;

constexpr const char* never_free = "the page never came free";

}  // namespace

std::uint64_t FaultWaits::soon() const {
  return clock_() + moment_ns;
}

std::uint64_t FaultWaits::later(const Fault& fault) const {
  const std::uint64_t now = clock_();
  return now + std::clamp((now - fault.taken_ns) / pause_share, moment_ns, pause_max_ns);
}

void FaultWaits::end_wait(Fault& fault) const {
  FaultWait& wait = fault.wait;
  if (wait.was_put_off) note_wait(wait);
  wait.for_progress = false;
  const std::uint64_t since = std::exchange(wait.throttled_since_ns, 0);
  if (since == 0) return;
  const std::uint64_t now = clock_();
  wait.throttled_ns += now - since;
  record_throttle(fault, EventKind::throttle_end, since, now);
}

FaultNext FaultWaits::wait_as_planned(Fault& fault, const FaultAttempt& attempt) {
  using WaitsFor = FaultPlan::WaitsFor;
  switch (attempt.waits_for) {
    case WaitsFor::view_change:
      break;
    case WaitsFor::transfer:
      // A transfer may take long, and other faults may need the reserved space more.
      fault.reservation.release();
      fault.wait.for_progress = engine_.transfers().is_live({fault.page, 1}, fault.message.thread);
      return put_off(fault, later(fault), never_free);
    case WaitsFor::policy:
      fault.reservation.release();
      begin_throttle(fault);
      return put_off(fault, attempt.until_ns, never_free);
    case WaitsFor::minimum_residency:
      return put_off(fault, std::min(attempt.until_ns, soon()), never_free);
    case WaitsFor::memory:
      return put_off(fault, clock_() + memory_pause_ns, never_free);
  }
  return wait_a_moment(fault, never_free);
}

FaultNext FaultWaits::wait_for_progress(Fault& fault) {
  fault.wait.for_progress = true;
  return wait_a_moment(fault, never_free);
}

FaultNext FaultWaits::make_space(Fault& fault, const FaultAttempt& attempt) {
  const OpStatus status = evict_for(fault, attempt);
  if (status == OpStatus::ok) return FaultNext::attempt();
  if (status == OpStatus::no_memory)
    return put_off_for_memory(fault, "no memory is left for the page");
  FaultConstraints& constraints = fault.constraints;
  if (status == OpStatus::held) constraints.space_is_held = true;
  const bool is_full = status == OpStatus::absent || status == OpStatus::held;
  if (constraints.no_space) {
    // The page has to come to this pool only because the view could not change. The next attempt
    // may change it: the hindrance (an overdue device, too many mappings) may be over.
    constraints.keep_view = false;
    return is_full ? wait_a_moment(fault, no_space_anywhere_.c_str())
                   : put_off_in_line(fault, attempt.destination);
  }
  if (is_full) {
    constraints.narrow_for_space(attempt.is_for_many);
    return FaultNext::attempt();
  }
  constraints.region_only = true;
  if (fault.wait.waited.ns() < line_limit_ns) return put_off_in_line(fault, attempt.destination);
  constraints.no_space = fault.wait.left_line = true;
  return FaultNext::attempt();
}

OpStatus FaultWaits::evict_for(Fault& fault, const FaultAttempt& attempt) {
  const Processor p = attempt.destination;
  const ReservationRequest request{
      .at = p, .pages = attempt.pages, .for_page = fault.page, .waiter = fault.waiter};
  if (attempt.outcome == Outcome::space_needed) {
    const OpStatus status = evictor_.reserve(request, fault.reservation);
    // The host's pool is full: no page leaves it, and no page of a device can be evicted to it.
    return status == OpStatus::no_memory ? OpStatus::absent : status;
  }
  // Linux has no memory. On a device's node the pages of the device's pool may have taken it. On
  // the host's nodes only Linux can reclaim memory.
  const bool evicted = !p.is_host() && evictor_.evict_one(request) == OpStatus::ok;
  return evicted ? OpStatus::ok : OpStatus::no_memory;
}

FaultNext FaultWaits::wait_for_any_space(Fault& fault) {
  // The next attempt looks for space in the fault's own pool again: pages that other requests had
  // reserved may have come by then, and can be evicted.
  fault.constraints.no_space = false;
  if (!std::exchange(fault.wait.left_line, false))
    return put_off_for_memory(fault, no_space_anywhere_.c_str());
  // No other pool has space either, so the fault waits in its own pool's line again.
  return put_off_in_line(fault, fault.processor);
}

FaultNext FaultWaits::put_off_in_line(Fault& fault, Processor p) {
  // While pages come free for older requests, this fault's turn will come: that is progress.
  const std::uint64_t progress = engine_.at(p).capacity.progress();
  fault.wait.for_progress = std::exchange(fault.wait.line_progress, progress) != progress;
  return put_off(fault, later(fault), no_space_anywhere_.c_str());
}

FaultNext FaultWaits::put_off_for_memory(Fault& fault, const char* why) {
  // Linux may be reclaiming memory, and have some a moment later.
  const int failures = ++fault.wait.memory_failures;
  if (failures < memory_attempts_max || fault.wait.waited.ns() < memory_limit_ns)
    return put_off(fault, clock_() + memory_pause_ns, why);
  answers_.refuse(fault, why);
  return FaultNext::answered();
}

FaultNext FaultWaits::put_off(Fault& fault, std::uint64_t due, const char* why) {
  note_wait(fault.wait);
  fault.wait.was_put_off = true;
  if (fault.wait.waited.ns() < life_limit_ns || !wait_limits_applied())
    return {.step = FaultNext::Step::put_off, .due = due};
  end_wait(fault);
  answers_.refuse(fault, why);
  return FaultNext::answered();
}

void FaultWaits::note_wait(FaultWait& wait) {
  if (!wait.for_progress && wait.throttled_since_ns == 0)
    wait.waited.note_wait();
  else
    wait.waited.skip_wait();
}

void FaultWaits::begin_throttle(Fault& fault) const {
  const std::uint64_t now = clock_();
  count(engine_.at(fault.processor).counters.throttled);
  fault.wait.throttled_since_ns = now;
  record_throttle(fault, EventKind::throttle_begin, now, now);
}

void FaultWaits::record_throttle(const Fault& fault, EventKind kind, std::uint64_t begun_ns,
                                 std::uint64_t now) const {
  if (!is_recorded(kind)) return;
  record_event({.time_ns = begun_ns,
                .duration_ns = now - begun_ns,
                .address = fault.message.address & ~(page_size - 1),
                .bytes = page_size,
                .thread = fault.message.thread,
                .kind = kind,
                .destination = index_of(fault.processor)});
}

}  // namespace wherry::impl
