// Resolves faults: makes attempts (faults/fault_attempt.h) until one succeeds, has the fault wait
// for what is missing (faults/fault_waits.h), and answers it (faults/fault_answers.h).
//
// Called by the handler threads of the fault daemon, several at once. Never waits: a fault that has
// to wait is handed back to its handler.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "faults/access_samples.h"
#include "faults/fault.h"
#include "faults/fault_answers.h"
#include "faults/fault_attempt.h"
#include "faults/fault_waits.h"
#include "faults/temporary_pins.h"
#include "migration/advice_effects.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/read_ahead.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "policy/advice_rules.h"
#include "trap/attached_threads.h"
#include "trap/trap.h"

namespace wherry::impl {

// Tells who uses the page table that the host and coherent devices share. Both are null if there
// are no coherent devices, and outlive the service otherwise.
struct SharedTable {
  const AttachedThreads* attached = nullptr;
  AccessSamples* samples = nullptr;
};

class FaultService {
 public:
  // All outlive the service. If `read_ahead` is null, no block is brought before it is used.
  // `shared` is empty if there are no coherent devices. `more_space` tells the user, in the log,
  // what to change so that the pools hold more.
  FaultService(const ArenaLayout& layout, PageEngine& engine, Evictor& evictor,
               AdviceEffects& effects, BlockDirectory& blocks, AddressSpace& address_space,
               const Audiences& audiences, const AdviceRules& rules, const Policy& policy,
               ReadAhead* read_ahead = nullptr, const SharedTable& shared = {},
               const std::string& more_space = "raise their capacities", Clock clock = now_ns)
      : layout_(layout),
        effects_(effects),
        blocks_(blocks),
        address_space_(address_space),
        audiences_(audiences),
        read_ahead_(read_ahead),
        shared_(shared),
        clock_(clock),
        temporary_pins_(engine, effects, blocks, policy, clock),
        attempts_(engine, effects, temporary_pins_, rules, policy, shared.samples,
                  read_ahead != nullptr, costs_, clock),
        answers_(engine, blocks, address_space, audiences, shared.samples, costs_, clock),
        waits_(engine, evictor, answers_, more_space, clock) {}

  // Returns the counts for take(). Call it before the message is read.
  MemoryChanges changes() const { return {audiences_.changes(), address_space_.frees()}; }
  // Makes a fault of a message, and counts it. `table`: the processor whose page table had no
  // entry. `before`: what changes() returned before the message was read; nullopt if unknown.
  Fault take(Processor table, const FaultMessage& message,
             const std::optional<MemoryChanges>& before = {});
  // Attempts to resolve the fault. Returns nullopt if it is answered, by exactly one wake or
  // signal. Otherwise returns the time, on the service's clock, at which resolve() must be called
  // again.
  [[nodiscard]] std::optional<std::uint64_t> resolve(Fault& fault);
  // Wakes the faulting thread, which repeats its access. Does not look at the page.
  void let_try_again(Fault& fault);
  // Resolves a fault of the calling thread of the host, in the handler of the signal that it got.
  // Returns false if that needs something that a signal handler must not do, or if another thread
  // has the block's lock: then the fault has to be posted to the daemon.
  [[nodiscard]] bool resolve_in_handler(const FaultMessage& message);
  // Returns a function that calls resolve_in_handler() of this service, which must then live as
  // long as the process. To be called for one service in a process.
  InThreadResolver in_thread_resolver();

  TemporaryPins& temporary_pins() { return temporary_pins_; }

 private:
  // Makes one attempt under the lock of the fault's block. In a signal handler it does not wait for
  // that lock: the outcome is not_here if another thread holds it.
  FaultAttempt attempt(Fault& fault);
  FaultAttempt attempt_locked(Fault& fault, const LockedBlock& block) REQUIRES(block.state.lock);
  // Sets the fault's kind (missing, minor, write-protect) if its source does not know it.
  void classify(Fault& fault, const Block& block) const REQUIRES(block.lock);
  // Answers the fault, or has it wait for what the attempt lacked.
  FaultNext respond(Fault& fault, const FaultAttempt& attempt);

  const ArenaLayout& layout_;
  AdviceEffects& effects_;
  BlockDirectory& blocks_;
  AddressSpace& address_space_;
  const Audiences& audiences_;
  ReadAhead* const read_ahead_;
  const SharedTable shared_;
  const Clock clock_;
  FaultCosts costs_;
  TemporaryPins temporary_pins_;
  FaultAttempts attempts_;
  FaultAnswers answers_;
  FaultWaits waits_;
};

}  // namespace wherry::impl
