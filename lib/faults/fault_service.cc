#include "faults/fault_service.h"

#include <algorithm>

#include "base/clock.h"
#include "base/log.h"

namespace wherry::impl {
namespace {

// A fault that another thread's changes make look again so often looks again a little later.
constexpr int attempts_max = 100;
constexpr std::uint64_t moment_ns = 20'000;
// The limit only bounds what a broken invariant, or memory that never comes, could cost; then the
// thread gets a signal rather than a hang.
constexpr std::uint64_t life_limit_ns = 10'000'000'000;
constexpr int memory_attempts_max = 20;
constexpr std::uint64_t memory_pause_ns = 5'000'000;

void count_event(Counters& counters, const FaultEvent& event) {
  if (event.write_protect) {
    count(counters.faults_write_protect);
  } else if (event.minor) {
    count(counters.faults_minor);
  } else {
    count(counters.faults_missing);
  }
}

}  // namespace

Fault FaultService::take(Processor toucher, const FaultEvent& event) {
  count_event(engine_.at(toucher).counters, event);
  return {toucher, event, (event.address - base_) / page_size, now_ns()};
}

std::optional<std::uint64_t> FaultService::resolve(Fault& fault) {
  Room room;
  for (int i = 0; i < attempts_max; ++i) {
    const Attempt attempt = this->attempt(fault, room);
    switch (attempt.outcome) {
      case Outcome::resolved:
        finish(fault, attempt.wake);
        return std::nullopt;
      case Outcome::try_again:
        continue;
      case Outcome::not_yet:
        return put_off(fault, attempt.due, "the page never came free");
      case Outcome::unallocated:
        if (answer_unallocated(fault)) return std::nullopt;
        continue;
      case Outcome::lost:
        refuse(fault,
               "its pool lost the page (failed memory, or the file was changed from outside)");
        return std::nullopt;
      case Outcome::room_needed:
      case Outcome::no_memory:
        switch (relieve(attempt, room)) {
          case OpStatus::ok:
            continue;
          case OpStatus::no_memory:
            // The kernel may be reclaiming: a moment later there may be some.
            if (++fault.memory_failures < memory_attempts_max)
              return put_off(fault, now_ns() + memory_pause_ns, "no memory is left for the page");
            refuse(fault, "no memory is left for the page");
            return std::nullopt;
          default:
            return put_off(fault, now_ns() + moment_ns, "no room is left for the page");
        }
    }
  }
  return put_off(fault, now_ns() + moment_ns, "others changed the page all the time");
}

FaultService::Attempt FaultService::attempt(const Fault& fault, Room& room) {
  const std::uint64_t number = block_of(fault.page);
  const auto page = static_cast<unsigned>(fault.page % pages_per_block);
  Block& block = blocks_.at(number);
  const LockGuard guard(block.lock);
  const auto allocation = address_space_.find(fault.page * page_size);
  if (!allocation) return {Outcome::unallocated};

  FaultFacts facts;
  facts.toucher = fault.toucher;
  facts.page = page;
  facts.write = fault.event.write;
  facts.residents = block.residents(page);
  facts.allocation = run_in_block(number, allocation->pages());
  return carry_out(block, number, page, policy_.on_fault(facts), room);
}

FaultService::Attempt FaultService::carry_out(Block& block, std::uint64_t number, unsigned page,
                                              const Decision& decision, Room& room) {
  const Processor to = decision.destination;
  if (block.at(to).resident.test(page)) return restore_access(block, number, page, decision);

  // The faulting page and those neighbours that are where it is.
  const ProcessorMask residents = block.residents(page);
  const bool exists = residents != 0;
  const Processor from{exists ? std::countr_zero(residents) : 0};
  const std::uint64_t now = now_ns();
  if (const std::uint64_t end = block.tenures.end_of(decision.region, now); exists && end > now)
    return {Outcome::not_yet, {}, end};
  const PageMask same_place = exists ? block.at(from).resident : block.absent();
  const PageMask wanted = same_place & PageMask::of(decision.region);
  if (!room.try_grow(engine_.at(to).capacity, wanted.count()))
    return {Outcome::room_needed, {}, 0, to, wanted.count()};

  bool page_done = false;
  for (const PageRun run : runs_of(wanted)) {
    const OpResult result =
        exists ? engine_.migrate(block, number, run, from, to, room, MoveCause::fault)
               : engine_.populate(block, number, run, to, room);
    const bool reached = page >= run.first && page < run.first + result.bytes / page_size;
    page_done = page_done || reached;
    if (result.status == OpStatus::process_gone) return {Outcome::resolved};
    if (result.status == OpStatus::no_memory && !page_done) return {Outcome::no_memory, {}, 0, to};
  }
  if (!page_done) return {Outcome::try_again};
  block.tenures.begin(decision.region, now);
  return {Outcome::resolved, span_of(number, decision.region)};
}

FaultService::Attempt FaultService::restore_access(Block& block, std::uint64_t number,
                                                   unsigned page, const Decision& decision) {
  const Processor at = decision.destination;
  const ProcessorPages& state = block.at(at);
  // Both answers are right whatever the event said, and harmless if it was stale: entering what is
  // entered already changes nothing, and a page that only one processor holds may be written there.
  const PageMask here = state.resident & PageMask::of(decision.region);
  const PageMask absent_in_table = here - state.mapped;
  const PageMask enter = absent_in_table.test(page) ? absent_in_table : PageMask::of({page, 1});
  for (const PageRun run : runs_of(enter)) {
    const OpResult result = engine_.map(block, number, run, at);
    if (result.status == OpStatus::process_gone) return {Outcome::resolved};
    if (result.status == OpStatus::absent) return {Outcome::lost};
    if (!result) return {Outcome::try_again};
  }
  if (!absent_in_table.test(page))
    (void)engine_.at(at).mapper.write_unprotect(span_of(number, {page, 1}));
  return {Outcome::resolved, span_of(number, decision.region)};
}

void FaultService::finish(const Fault& fault, PageSpan wake) {
  ProcessorMemory& memory = engine_.at(fault.toucher);
  // Everything that the woken thread may ask about is in place before the wake.
  count(memory.counters.service_ns, now_ns() - fault.taken_ns);
  if (wake.empty()) return;
  (void)memory.mapper.wake(wake);
  const std::uint64_t number = block_of(wake.first);
  blocks_.at(number).tenures.woken(run_in_block(number, wake), now_ns());
}

OpStatus FaultService::relieve(const Attempt& attempt, Room& room) {
  const Processor p = attempt.destination;
  if (attempt.outcome == Outcome::room_needed)
    return evictor_.make_room(p, attempt.room_needed, room);
  // On a device's node its own pages may be in the way; the host's can only wait for what the kernel reclaims.
  if (!p.is_host() && evictor_.evict_oldest(p) == OpStatus::ok) return OpStatus::ok;
  return OpStatus::no_memory;
}

std::optional<std::uint64_t> FaultService::put_off(const Fault& fault, std::uint64_t due,
                                                   const char* why) {
  if (due < fault.taken_ns + life_limit_ns) return due;
  refuse(fault, why);
  return std::nullopt;
}

bool FaultService::answer_unallocated(const Fault& fault) {
  const Suspect suspect{fault.toucher, fault.page, fault.event.thread};
  if (!came_back(suspect)) {
    (void)engine_.at(fault.toucher).mapper.wake({fault.page, 1});
    return true;
  }
  if (!address_space_.retire_if_dead(fault.page)) return false;
  refuse(fault, "no live allocation is there (freed, or never allocated)");
  return true;
}

bool FaultService::came_back(const Suspect& suspect) {
  const LockGuard guard(suspects_lock_);
  if (std::find(suspects_.begin(), suspects_.end(), suspect) != suspects_.end()) return true;
  suspects_[next_suspect_] = suspect;
  next_suspect_ = (next_suspect_ + 1) % suspects_.size();
  return false;
}

void FaultService::refuse(const Fault& fault, const char* why) {
  const Processor toucher = fault.toucher;
  log_line("{} thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV",
           toucher.is_host() ? "host" : fmt::format("device {}", toucher.ordinal()),
           fault.event.thread, fault.event.write ? "wrote to" : "read", fault.event.address, why);
  ProcessorMemory& memory = engine_.at(toucher);
  const PageSpan span{fault.page, 1};
  address_space_.retire(fault.page);
  (void)memory.mapper.forbid(span);
  (void)memory.mapper.wake(span);
}

}  // namespace wherry::impl
