#include "faults/fault_answers.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "base/log.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

void count_message(Counters& counters, const FaultMessage& message) {
  if (message.write_protect) {
    count(counters.faults_write_protect);
  } else if (message.minor) {
    count(counters.faults_minor);
  } else {
    count(counters.faults_missing);
  }
}

// How long a sampled access waits in addition to the handler's work: until the handler has read the
// message, and until the woken thread runs.
constexpr std::uint64_t round_trip_ns = 10'000;

}  // namespace

void FaultAnswers::count_once(Fault& fault) const {
  if (std::exchange(fault.counted, true)) return;
  count_message(engine_.at(fault.processor).counters, fault.message);
  engine_.note_fault(block_of(fault.page));
}

void FaultAnswers::finish(Fault& fault, PageSpan pages) {
  count_once(fault);
  ProcessorMemory& memory = engine_.at(fault.processor);
  const std::uint64_t now = clock_();
  const std::uint64_t service_ns = now - fault.taken_ns;
  count(memory.counters.service_ns, service_ns);
  costs_.fault_ns.add(service_ns -
                      std::min(service_ns, fault.wait.throttled_ns + fault.transfer_ns));
  record_answer(fault, pages, now);
  if (!pages.empty()) {
    (void)engine_.at(fault.table).mapper.wake(pages);
    const PageRun run = run_in_block(block_of(pages.first), pages);
    blocks_.at(block_of(pages.first)).minimum_residency.woken(run, fault.processor, clock_());
  }
  if (!fault.sample) return;
  // A move is not the sample's cost: the policy has decided that it pays.
  const bool stays = fault.sample == Fault::Sample::stays;
  samples_->note_cost(round_trip_ns + (stays ? clock_() - fault.taken_ns : 0));
}

bool FaultAnswers::answer_unallocated(Fault& fault) {
  if (!stale_faults_.is_of_freed(fault)) {
    let_try_again(fault);
    return true;
  }
  const auto dead = address_space_.retire_if_dead(fault.page);
  if (dead) refuse(fault, *dead, "no live allocation is there (freed, or never allocated)");
  return dead.has_value();
}

void FaultAnswers::answer_foreign(Fault& fault) {
  if (stale_faults_.is_of_foreign(fault))
    refuse(fault, "it is another device's memory (cuMemAlloc, or a pool), which it may not access");
  else
    let_try_again(fault);
}

void FaultAnswers::let_try_again(Fault& fault) {
  record_answer(fault, {}, clock_());
  (void)engine_.at(fault.table).mapper.wake({fault.page, 1});
}

void FaultAnswers::refuse(Fault& fault, const char* why) {
  address_space_.retire(fault.page);
  refuse(fault, {fault.page, 1}, why);
}

void FaultAnswers::refuse(Fault& fault, PageSpan dead, const char* why) {
  fault.refused = true;
  count_once(fault);
  record_answer(fault, {fault.page, 1}, clock_());
  forbid(fault, dead);
  // Logged before the wake, because the signal after it may end the process. Logging never waits.
  log_refusal(fault, why);
  (void)engine_.at(fault.table).mapper.wake(dead);
}

void FaultAnswers::forbid(const Fault& fault, PageSpan pages) {
  Mapper& mapper = engine_.at(fault.table).mapper;
  const BlockIndex index = block_of(fault.page);
  // If a page has been mapped for another thread meanwhile, forbid() must not change its entry:
  // then hide() is called.
  const auto status = [&] {
    Block* const state = blocks_.find(index);
    if (state == nullptr) return mapper.forbid(pages, fault.page).status;  // nothing is mapped
    const LockedBlock block(index, *state, fault.waiter);
    const PageMask mapped = block.state.at(fault.table).mapped;
    const bool is_mapped = !(mapped & PageMask::of(run_in_block(index, pages))).none();
    return is_mapped ? OpStatus::unsupported : mapper.forbid(pages, fault.page).status;
  }();
  // If hide() fails, too, the woken threads fault again, and are refused again.
  if (status == OpStatus::unsupported || status == OpStatus::gone) (void)mapper.hide(pages);
}

void FaultAnswers::log_refusal(const Fault& fault, const char* why) {
  // Thousands of lines hide the first ones, and what the program itself writes. After the first
  // hundred, a line is written whenever the number has doubled.
  constexpr std::uint64_t lines_max = 100;
  const std::uint64_t number = refusals_.fetch_add(1, std::memory_order_relaxed) + 1;
  const bool is_round = number % lines_max == 0 && std::has_single_bit(number / lines_max);
  if (number > lines_max && !is_round) return;
  const Processor p = fault.processor;
  const char* const verb = fault.message.write ? "wrote to" : "read";
  if (p.is_host())
    log_error("host thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV", fault.message.thread, verb,
              fault.message.address, why);
  else
    log_error("device {} thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV", p.ordinal(),
              fault.message.thread, verb, fault.message.address, why);
  if (is_round)
    log_error("{} accesses were refused so far; the next line about one is at number {}", number,
              2 * number);
}

void FaultAnswers::record_answer(const Fault& fault, PageSpan pages, std::uint64_t now) const {
  if (!is_recorded(EventKind::fault)) return;
  const FaultMessage& message = fault.message;
  const auto kind = message.write_protect ? FaultDetail::write_protect
                    : message.minor       ? FaultDetail::minor
                                          : FaultDetail::missing;
  record_event(
      {.time_ns = fault.taken_ns,
       .duration_ns = now - fault.taken_ns,
       .address = message.address,
       .bytes = pages.bytes(),
       .thread = message.thread,
       .kind = EventKind::fault,
       .cause = fault.sample ? EventCause::sample : EventCause::none,
       .access = message.write ? EventAccess::write : EventAccess::read,
       .detail = static_cast<std::uint8_t>(code_of(kind) | (fault.refused ? fault_refused : 0)),
       .destination = index_of(fault.processor)});
}

}  // namespace wherry::impl
