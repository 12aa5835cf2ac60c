// The simulated machine of a replay: threads access pages, and the library's own code handles that
// at the times which the caller gives. The rules, the policy, the fault plans, their execution and
// the evictions are those of a live run. The machine adds their costs, and lets a block resolve one
// fault at a time.
//
// Not thread-safe. Each call returns at once; the times of the calls must not decrease.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "faults/access_samples.h"
#include "faults/fault_attempt.h"
#include "faults/temporary_pins.h"
#include "policy/advice_rules.h"
#include "replay/recorded_answers.h"
#include "replay/simulated_memory.h"
#include "replay/stretches.h"
#include "trace/event.h"

namespace wherry::replay {

struct MachineCounts {
  std::uint64_t faults = 0;
  std::uint64_t samples = 0;     // of accesses to mapped pages, among the faults
  std::uint64_t migrations = 0;  // pages that move together count once
  std::uint64_t migrated_pages = 0;
  std::uint64_t mapped_pages = 0;  // remotely
  std::uint64_t duplicated_pages = 0;
  std::uint64_t evictions = 0;  // of blocks
  std::uint64_t throttled = 0;

  bool operator==(const MachineCounts&) const = default;
};

// A thread's access to a page, and how far it has come.
struct Touch {
  std::uint32_t block = 0;
  unsigned page = 0;
  impl::Processor faulting_processor;
  bool write = false;
  bool sampled = false;  // it was recorded as a sample, so that it faults also on a mapped page
  RecordedAnswer recorded;
  std::optional<impl::Fault> fault = {};  // that the access became
};

struct Answer {
  bool resolved = false;
  std::uint64_t time_ns = 0;  // when the fault was resolved, or when to ask again
};

class Machine {
 public:
  // The arguments must outlive this object.
  Machine(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy);

  // Whether the access needs no fault: its page is mapped, and it is no sample. If so, `extra_ns`
  // is the time that it takes longer because its page is in another pool.
  bool access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns);
  // The first of these pages of the accessed block on which the same access would fault, or
  // nullopt.
  std::optional<unsigned> first_missing(const Touch& touch, const impl::PageMask& pages);
  // Handles the fault of the access.
  Answer resolve(Touch& touch, std::uint64_t now_ns);
  // Repeats what the program, or the library for it, did to memory. Returns the time at its end.
  std::uint64_t apply(const impl::TraceEvent& change, std::uint64_t now_ns);

  // Evicts what the recorded run had evicted by `recorded_ns` (SimulatedMemory::follow()).
  void follow(std::uint64_t recorded_ns, std::uint64_t now_ns) {
    memory_.follow(recorded_ns, now_ns);
  }
  // Ends the temporary pins whose time has come.
  void end_temporary_pins(std::uint64_t now_ns) { temporary_pins_.end_due(now_ns); }
  MachineCounts counts() const;

 private:
  using Block = impl::Block;
  using LockedBlock = impl::LockedBlock;
  using PageMask = impl::PageMask;
  using PageRun = impl::PageRun;
  using Processor = impl::Processor;
  using MoveCause = impl::MoveCause;
  using Outcome = impl::FaultAttempt::Outcome;

  // A fault on the block is handled until `until_ns`. The page state has the outcome from the
  // start; threads that use the page table of the faulting processor see it at the end.
  struct Busy {
    std::uint64_t until_ns = 0;
    // Pages that could be read, and written, before the fault.
    PageMask readable;
    PageMask writable;
    Processor table;
  };

  // The processor in whose page table the access looks for its page.
  Processor table_of(const Touch& touch) {
    return memory_.engine().table_of(touch.faulting_processor);
  }
  // Whether the access has to wait for a fault that is being handled, though the page state permits
  // it.
  bool is_delayed(const Touch& touch);
  // Pages that are accessed through the table without a fault.
  static PageMask open_in(const Block& block, Processor table, bool write) REQUIRES(block.lock);
  impl::FaultFacts facts_of(const Touch& touch, const LockedBlock& block, std::uint64_t now_ns)
      REQUIRES(block.state.lock);
  // `arrivals`: receives the pages that came or were mapped.
  impl::FaultAttempt attempt(Touch& touch, const LockedBlock& block, std::uint64_t now_ns,
                             Arrivals& arrivals) REQUIRES(block.state.lock);
  impl::FaultAttempt wait(impl::Fault& fault, const impl::FaultPlan& plan, std::uint64_t now_ns);
  impl::FaultAttempt execute(Touch& touch, const LockedBlock& block, const impl::FaultFacts& facts,
                             const impl::FaultPlan& plan, Arrivals& arrivals)
      REQUIRES(block.state.lock);

  void allocate(const impl::TraceEvent& event, impl::PageSpan pages);
  void free(impl::PageIndex first_page);
  void release(impl::PageSpan pages);
  void advise(const impl::TraceEvent& event);
  // Brings the pages of the run to a pool, from wherever they are.
  void bring_all(std::uint32_t number, PageRun run, Processor to, MoveCause cause);
  void bring(const LockedBlock& block, PageMask left, Processor to, MoveCause cause,
             impl::Reservation& reservation) REQUIRES(block.state.lock);
  // Calls visit(number, run) for the blocks of the replay that the pages are in.
  template <typename Visit>
  void for_each_block(impl::PageSpan pages, const Visit& visit);

  const CostModel& costs_;
  const impl::AdviceRules rules_;
  const std::span<const std::uint64_t> blocks_;
  std::vector<std::uint32_t> by_address_;  // numbers of blocks
  Stretches stretches_;
  SimulatedMemory memory_;
  impl::FaultCosts measured_;  // by the attempts; policies get the cost model's
  impl::TemporaryPins temporary_pins_;
  impl::AccessSamples samples_;
  impl::FaultAttempts attempts_;
  std::vector<Busy> busy_;                              // by block
  std::map<impl::PageIndex, impl::Reservation> owned_;  // devices' own memory, by first page
  MachineCounts counts_;                                // those that the library does not count
  std::uint64_t duplications_ = 0;                      // copies that are no moves
};

}  // namespace wherry::replay
