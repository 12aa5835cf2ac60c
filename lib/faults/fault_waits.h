// What a fault waits for between two attempts, and for how long: the policy's throttling, a
// transfer, space in a pool, memory. The handler does not wait: it puts the fault aside until it is
// due. A fault that has waited in vain for too long is refused, so that its thread does not hang.
// Any thread, without a block's lock.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "faults/fault.h"
#include "faults/fault_answers.h"
#include "faults/fault_attempt.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"

namespace wherry::impl {

// What follows an attempt.
struct FaultNext {
  enum class Step {
    answered,  // by exactly one wake or signal
    attempt,   // at once
    put_off,   // until `due`, on the service's clock
  };

  Step step = Step::answered;
  std::uint64_t due = 0;

  static constexpr FaultNext answered() { return {}; }
  static constexpr FaultNext attempt() { return {.step = Step::attempt}; }
};

class FaultWaits {
 public:
  // `more_space`: what the user can change so that pools hold more; for the log. All outlive this.
  FaultWaits(PageEngine& engine, Evictor& evictor, FaultAnswers& answers,
             const std::string& more_space, Clock clock)
      : engine_(engine),
        evictor_(evictor),
        answers_(answers),
        no_space_anywhere_("all pools are full: free memory, or " + more_space),
        clock_(clock) {}

  // Ends the fault's wait: it is due, or its thread tries again.
  void end_wait(Fault& fault) const;
  // The fault waits for what the attempt says, until the time that it says.
  FaultNext wait_as_planned(Fault& fault, const FaultAttempt& attempt);
  // The fault waits for a moment. If it has waited in vain for too long, it is refused for the
  // reason `why`.
  FaultNext wait_a_moment(Fault& fault, const char* why) { return put_off(fault, soon(), why); }
  // The fault waits for something that makes progress and will end.
  FaultNext wait_for_progress(Fault& fault);
  // Makes the space that the attempt needs, or has the fault wait for it.
  FaultNext make_space(Fault& fault, const FaultAttempt& attempt);
  // The fault waits: no pool has space for its page.
  FaultNext wait_for_any_space(Fault& fault);

 private:
  std::uint64_t soon() const;
  // A fault that has waited for long looks less often: its looks take CPU time from the thread that
  // it waits for.
  std::uint64_t later(const Fault& fault) const;
  void begin_throttle(Fault& fault) const;
  void record_throttle(const Fault& fault, EventKind kind, std::uint64_t begun_ns,
                       std::uint64_t now) const;
  OpStatus evict_for(Fault& fault, const FaultAttempt& attempt);
  FaultNext put_off(Fault& fault, std::uint64_t due, const char* why);
  // The fault waits for space in p's pool.
  FaultNext put_off_in_line(Fault& fault, Processor p);
  // The fault waits until Linux, or other faults, may have freed memory.
  FaultNext put_off_for_memory(Fault& fault, const char* why);
  // Counts the time since the last look if it was in vain.
  static void note_wait(FaultWait& wait);

  PageEngine& engine_;
  Evictor& evictor_;
  FaultAnswers& answers_;
  const std::string no_space_anywhere_;
  const Clock clock_;
};

}  // namespace wherry::impl
