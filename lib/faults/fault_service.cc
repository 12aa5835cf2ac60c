#include "faults/fault_service.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/log.h"

namespace wherry::impl {
namespace {

// Each attempt either succeeds, or found that another thread changed the block or took the room.
// The limit only bounds what a broken invariant could cost; then the thread gets a signal rather
// than a hang.
constexpr int attempts_max = 1000;
constexpr int room_limit_ms = 10'000;
constexpr int memory_attempts_max = 20;
constexpr std::chrono::milliseconds memory_pause{5};

void count_event(Counters& counters, const FaultEvent& event) {
  if (event.write_protect) {
    count(counters.faults_write_protect);
  } else if (event.minor) {
    count(counters.faults_minor);
  } else {
    count(counters.faults_missing);
  }
}

std::uint64_t nanoseconds_now() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace

void FaultService::resolve(Processor toucher, const FaultEvent& event) {
  const std::uint64_t started = nanoseconds_now();
  const std::uint64_t page = (event.address - base_) / page_size;
  ProcessorMemory& memory = engine_.at(toucher);
  count_event(memory.counters, event);

  Room room;
  const char* why = "the fault could not be resolved";
  int failures = 0;
  for (int i = 0; i < attempts_max; ++i) {
    const Attempt attempt = this->attempt(toucher, page, event, room);
    if (attempt.outcome == Outcome::resolved) {
      // Everything that the woken thread may ask about is in place before the wake.
      count(memory.counters.service_ns, nanoseconds_now() - started);
      (void)memory.mapper.wake(attempt.wake);
      return;
    }
    if (attempt.outcome == Outcome::unallocated) {
      if (!came_back(toucher, page, event.thread)) {
        (void)memory.mapper.wake({page, 1});
        return;
      }
      why = "no live allocation is there (freed, or never allocated)";
      if (address_space_.retire_if_dead(page)) break;
    } else if (attempt.outcome == Outcome::lost) {
      why = "its pool lost the page (failed memory, or the file was changed from outside)";
      break;
    } else if (attempt.outcome == Outcome::no_memory) {
      why = "no memory is left for the page";
      if (++failures == memory_attempts_max) break;
      // On a device's node its own pages may be in the way; the host's can only wait for what the kernel reclaims.
      if (toucher.is_host() || evictor_.evict_oldest(toucher) != OpStatus::ok)
        std::this_thread::sleep_for(memory_pause);
    } else if (attempt.room_needed != 0) {
      room = Room();
      auto made = evictor_.make_room(toucher, attempt.room_needed, room_limit_ms);
      why = "no memory is left to make room for the page";
      if (!made) break;
      room = std::move(*made);
    }
  }
  refuse(toucher, page, event, why);
}

FaultService::Attempt FaultService::attempt(Processor toucher, std::uint64_t page,
                                            const FaultEvent& event, Room& room) {
  const std::uint64_t number = block_of(page);
  const auto in_block = static_cast<unsigned>(page % pages_per_block);
  Block& block = blocks_.at(number);
  const LockGuard guard(block.lock);
  const auto allocation = address_space_.find(page * page_size);
  if (!allocation) return {Outcome::unallocated};

  FaultFacts facts;
  facts.toucher = toucher;
  facts.page = in_block;
  facts.write = event.write;
  facts.residents = block.residents(in_block);
  facts.allocation = run_in_block(number, allocation->pages());
  return carry_out(block, number, in_block, policy_.on_fault(facts), room);
}

FaultService::Attempt FaultService::carry_out(Block& block, std::uint64_t number, unsigned page,
                                              const Decision& decision, Room& room) {
  const Processor to = decision.destination;
  if (block.at(to).resident.test(page)) return restore_access(block, number, page, decision);

  // The faulting page and those neighbours that are where it is.
  const ProcessorMask residents = block.residents(page);
  const bool exists = residents != 0;
  const Processor from{exists ? std::countr_zero(residents) : 0};
  const PageMask same_place = exists ? block.at(from).resident : block.absent();
  const PageMask wanted = same_place & PageMask::of(decision.region);
  if (!room.try_grow(engine_.at(to).capacity, wanted.count()))
    return {Outcome::try_again, wanted.count()};

  bool page_done = false;
  for (PageRun run = wanted.next_run(0); run.count != 0; run = wanted.next_run(run.end())) {
    const OpResult result =
        exists ? engine_.migrate(block, number, run, from, to, room, MoveCause::fault)
               : engine_.populate(block, number, run, to, room);
    const bool reached = page >= run.first && page < run.first + result.bytes / page_size;
    page_done = page_done || reached;
    if (result.status == OpStatus::process_gone) return {Outcome::resolved};
    if (result.status == OpStatus::no_memory && !page_done) return {Outcome::no_memory};
  }
  if (!page_done) return {Outcome::try_again};
  return {Outcome::resolved, 0, span_of(number, decision.region)};
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
  for (PageRun run = enter.next_run(0); run.count != 0; run = enter.next_run(run.end())) {
    const OpResult result = engine_.map(block, number, run, at);
    if (result.status == OpStatus::process_gone) return {Outcome::resolved};
    if (result.status == OpStatus::absent) return {Outcome::lost};
    if (!result) return {Outcome::try_again};
  }
  if (!absent_in_table.test(page))
    (void)engine_.at(at).mapper.write_unprotect(span_of(number, {page, 1}));
  return {Outcome::resolved, 0, span_of(number, decision.region)};
}

bool FaultService::came_back(Processor toucher, std::uint64_t page, std::uint32_t thread) {
  const Suspect suspect{toucher, page, thread};
  const LockGuard guard(suspects_lock_);
  if (std::find(suspects_.begin(), suspects_.end(), suspect) != suspects_.end()) return true;
  suspects_[next_suspect_] = suspect;
  next_suspect_ = (next_suspect_ + 1) % suspects_.size();
  return false;
}

void FaultService::refuse(Processor toucher, std::uint64_t page, const FaultEvent& event,
                          const char* why) {
  log_line("{} thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV",
           toucher.is_host() ? "host" : fmt::format("device {}", toucher.ordinal()), event.thread,
           event.write ? "wrote to" : "read", event.address, why);
  ProcessorMemory& memory = engine_.at(toucher);
  const PageSpan span{page, 1};
  address_space_.retire(page);
  (void)memory.mapper.forbid(span);
  (void)memory.mapper.wake(span);
}

}  // namespace wherry::impl
