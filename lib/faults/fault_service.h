// Resolves faults. Each attempt is made under the block's lock, in four steps:
//   gather   the facts, the advice, the policy's opinion -> a decision
//   plan     plan_fault() (policy/fault_plan.h), a pure function -> a value
//   execute  the page engine carries the plan out (faults/plan_executor.h)
//   finish   the threads that wait are woken (faults/fault_answers.h)
// What an attempt finds missing (space, memory) is made without the lock, and the next attempt
// follows. What it finds narrows the later plans of the same fault (FaultConstraints).
//
// Called by the handler threads of the fault daemon, several at once. Never waits: a fault whose
// time has not come is handed back to its handler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "faults/access_samples.h"
#include "faults/attached_threads.h"
#include "faults/fault.h"
#include "faults/fault_answers.h"
#include "faults/plan_executor.h"
#include "faults/stale_faults.h"
#include "faults/temporary_pins.h"
#include "migration/advice_effects.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/read_ahead.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "policy/advice_rules.h"
#include "policy/fault_plan.h"
#include "trap/trap.h"

namespace wherry::impl {

// Who uses the page table that the host and coherent devices share. Both are null if there are no
// coherent devices, and outlive the service otherwise.
struct SharedTable {
  const AttachedThreads* attached = nullptr;
  AccessSamples* samples = nullptr;
};

class FaultService {
 public:
  // All outlive the service. `read_ahead`: null: no block is brought before it is used. `shared`:
  // empty: there are no coherent devices. `more_space`: what the user can change so that the pools
  // hold more; for the log.
  FaultService(const ArenaLayout& layout, PageEngine& engine, Evictor& evictor,
               AdviceEffects& effects, BlockDirectory& blocks, AddressSpace& address_space,
               const Audiences& audiences, const AdviceRules& rules, const Policy& policy,
               ReadAhead* read_ahead = nullptr, const SharedTable& shared = {},
               const std::string& more_space = "raise their capacities", Clock clock = now_ns)
      : layout_(layout),
        engine_(engine),
        evictor_(evictor),
        effects_(effects),
        blocks_(blocks),
        address_space_(address_space),
        audiences_(audiences),
        rules_(rules),
        policy_(policy),
        read_ahead_(read_ahead),
        shared_(shared),
        no_space_anywhere_("all pools are full: free memory, or " + more_space),
        clock_(clock),
        executor_(engine, effects, costs_, clock),
        answers_(engine, blocks, address_space, costs_, clock),
        stale_faults_(audiences, address_space, clock),
        temporary_pins_(engine, effects, blocks, policy, clock) {}

  // To be called before a message is read, for take().
  MemoryChanges changes() const { return {audiences_.changes(), address_space_.frees()}; }
  // Makes a fault of a message, and counts it. `table`: in whose page table the page was not
  // mapped. `before`: what changes() was before the message was read; nothing: unknown.
  Fault take(Processor table, const FaultMessage& message,
             const std::optional<MemoryChanges>& before = {});
  // Attempts to resolve the fault. Nothing: it is answered, by exactly one wake or signal.
  // Otherwise the time, on the service's clock, at which resolve() must be called again.
  [[nodiscard]] std::optional<std::uint64_t> resolve(Fault& fault);
  // Wakes the thread without a look at the page. It accesses the page again.
  void let_try_again(Fault& fault) { answers_.let_try_again(fault); }
  // The same as resolve(), for an access of the host, by the thread that made it, in the handler of
  // the signal that it got. False: the fault needs what a signal handler must not do, or another
  // thread has the block's lock. Then the fault has to be posted to the daemon.
  [[nodiscard]] bool resolve_in_handler(const FaultMessage& message);
  // Calls resolve_in_handler() of this service, which must then live as long as the process. One
  // service in a process.
  InThreadResolver in_thread_resolver();

  TemporaryPins& temporary_pins() { return temporary_pins_; }

 private:
  using Attempt = FaultAttempt;
  using Outcome = FaultAttempt::Outcome;

  // What gather() finds.
  struct Gathered {
    FaultFacts facts;
    Decision decision;
  };

  Attempt attempt(Fault& fault);
  Attempt attempt_locked(Fault& fault, const LockedBlock& block) REQUIRES(block.state.lock);
  void try_again_after_hold(const Fault& fault, const LockedBlock& block, const FaultPlan& plan)
      REQUIRES(block.state.lock);

  // Step 1. Nothing: `found` is complete. Otherwise why there is nothing to plan.
  std::optional<Attempt> gather(Fault& fault, const LockedBlock& block, Gathered& found)
      REQUIRES(block.state.lock);
  // Which blocks to bring ahead once the fault is answered.
  void note_sweep(Fault& fault, const Gathered& found, const Allocation& allocation);
  // Sets the fault's kind where its source does not know it.
  void classify(Fault& fault, const Block& block) const REQUIRES(block.lock);
  FaultFacts facts_of(const Fault& fault, const Allocation& allocation,
                      const LockedBlock& block) const REQUIRES(block.state.lock);
  // The coarsest grain of the processors whose mappings an answer may split.
  unsigned grain_for(Processor table, ProcessorMask residents) const;

  // Steps 2 and 3 are the executor's, but for plans that cannot be carried out yet.
  Attempt wait(Fault& fault, const FaultPlan& plan, const FaultFacts& facts);

  // After an attempt, without the lock. Each returns when to look again, or nothing when the fault
  // is answered; Next::at_once: attempt again.
  enum class Next {
    at_once
  };
  struct Later {
    std::optional<std::uint64_t> due;
  };
  using Continuation = std::variant<Next, Later>;
  // Wakes the threads that wait for the pages.
  void finish(Fault& fault, PageSpan wake);
  Continuation continue_after(Fault& fault, const Attempt& attempt);
  Continuation make_space(Fault& fault, const Attempt& attempt);
  Continuation answer_unallocated(Fault& fault);
  Continuation answer_foreign(Fault& fault);
  // The fault looks again at `due`, unless it has waited in vain for too long: then its thread gets
  // a signal, and `why` goes to the log.
  Later put_off(Fault& fault, std::uint64_t due, const char* why);
  // As put_off(), for space in p's pool.
  Later put_off_in_line(Fault& fault, Processor p);
  // As put_off(), for memory that Linux, or other faults, may give back.
  Later put_off_for_memory(Fault& fault, const char* why);
  // Keeps Fault::waited.
  static void note_wait(Fault& fault);
  std::uint64_t soon() const;
  // A fault that has waited for long looks less often: its looks take CPU time from the thread that
  // it waits for.
  std::uint64_t later(const Fault& fault) const;

  const ArenaLayout& layout_;
  PageEngine& engine_;
  Evictor& evictor_;
  AdviceEffects& effects_;
  BlockDirectory& blocks_;
  AddressSpace& address_space_;
  const Audiences& audiences_;
  const AdviceRules rules_;
  const Policy& policy_;
  ReadAhead* const read_ahead_;
  const SharedTable shared_;
  const std::string no_space_anywhere_;
  const Clock clock_;
  FaultCosts costs_;
  PlanExecutor executor_;
  FaultAnswers answers_;
  StaleFaults stale_faults_;
  TemporaryPins temporary_pins_;
};

}  // namespace wherry::impl
