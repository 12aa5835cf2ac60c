// One fault, from when its message was read until a wake, or a signal, has answered it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/patience.h"
#include "memory/capacity.h"
#include "migration/page_engine.h"
#include "policy/fault_plan.h"
#include "trap/fault_source.h"

namespace wherry::impl {

// How often access to memory was changed, and memory was freed, up to some moment.
struct MemoryChanges {
  std::uint64_t of_access = 0;  // Audiences::changes()
  std::uint64_t frees = 0;      // AddressSpace::frees()
};

// What a fault has waited for so far (faults/fault_waits.h).
struct FaultWait {
  FaultWait(std::uint64_t taken_ns, Clock clock) : waited(taken_ns, clock) {}

  // Time spent waiting in vain: excluding throttling, waiting for a transfer that goes on, and time
  // in which the process did not run.
  WaitedTime waited;
  bool was_put_off = false;
  bool for_progress = false;             // what it waits for makes progress and will end
  std::uint64_t throttled_ns = 0;        // how long the policy has throttled it
  std::uint64_t throttled_since_ns = 0;  // 0: it is not throttled
  // Capacity::progress() of the pool in whose line the fault waits for free pages, when the fault
  // was last postponed.
  std::uint64_t line_progress = 0;
  // The fault has waited for long in a pool's line, and looks whether another pool has space. If
  // none has, it goes back to the line.
  bool left_line = false;
  int memory_failures = 0;  // how often Linux had no page for the fault
};

// Not shared between threads: one handler at a time has it.
struct Fault {
  Fault(Processor faulting_processor, Processor page_table, const FaultMessage& fault_message,
        PageIndex page_number, Clock clock)
      : processor(faulting_processor),
        table(page_table),
        message(fault_message),
        page(page_number),
        taken_ns(clock()),
        wait(taken_ns, clock) {}

  Processor processor;  // whose thread has accessed the page
  // The processor whose page table had no entry: the faulting one, or the host for a coherent
  // device.
  Processor table;
  FaultMessage message;
  PageIndex page;          // in the arena
  std::uint64_t taken_ns;  // when its message was read
  // The counts before its message was read; nullopt if unknown.
  std::optional<MemoryChanges> changes_before = {};
  std::shared_ptr<const FaultSource> source = {};  // where the answer goes
  // The slot in which the faulting thread waits, kept by `source`. Null if it waits in Linux, or
  // handles its own fault.
  FaultSlot* waiter = nullptr;
  // The faulting thread handles its own fault, in a signal handler: it must not allocate, wait or
  // log.
  bool in_handler = false;

  // The page's allocation at the first attempt. A thread may have gone on before the fault is
  // answered, for example because its view has changed; then the memory may have been freed, and
  // allocated again.
  struct Allocated {
    std::uint64_t id;
    PageSpan pages = {};
  };
  std::optional<Allocated> allocated = {};
  // What earlier attempts have found.
  FaultConstraints constraints = {};
  // Set to `none` when the destination's process has ended. Then the page goes to the destination's
  // pool, and only other processors map it.
  Entry entry = Entry::at_home;
  // A temporary pin has begun, and there was no memory to remember it.
  bool owes_pin = false;
  // The space for its pages. It is kept while the fault is postponed, so that younger faults do not
  // get the space that was made for this one.
  Reservation reservation = {};

  // What a sample of an access to a mapped page has shown; nullopt if the fault is no sample.
  enum class Sample {
    stays,  // it says nothing against the place of the page
    moves,  // with earlier ones it says that the page should move: the policy is asked
  };
  std::optional<Sample> sample = {};

  // Where the page was before anything was done for the fault, the run of pages around it that were
  // there, too, and the reason for the decision. nullopt if nothing has been done.
  struct Origin {
    std::int8_t source;
    PageRun run;
    Reason reason;
  };
  std::optional<Origin> origin = {};

  FaultWait wait;
  std::uint64_t transfer_ns = 0;  // how long the transfers of its pages took
  bool counted = false;
  bool refused = false;  // the thread gets a signal
};

}  // namespace wherry::impl
