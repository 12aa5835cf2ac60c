// Answers faults: wakes the faulting threads, or has Linux send them a signal; counts and records
// the fault on the way. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/clock.h"
#include "faults/access_samples.h"
#include "faults/fault.h"
#include "faults/stale_faults.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/audiences.h"
#include "pages/block_directory.h"
#include "policy/fault_costs.h"

namespace wherry::impl {

class FaultAnswers {
 public:
  // `samples` is null if there are no coherent devices. `costs` gets the cost of answered faults.
  // All outlive this object.
  FaultAnswers(PageEngine& engine, BlockDirectory& blocks, AddressSpace& address_space,
               const Audiences& audiences, AccessSamples* samples, FaultCosts& costs, Clock clock)
      : engine_(engine),
        blocks_(blocks),
        address_space_(address_space),
        samples_(samples),
        costs_(costs),
        clock_(clock),
        stale_faults_(audiences, address_space, clock) {}

  // Wakes the threads that wait for these pages, which are mapped now. What a woken thread may
  // query is up to date before the wake. `pages` is empty if no thread is left to be woken.
  void finish(Fault& fault, PageSpan pages);
  // Answers a fault on a page of no live allocation: the access is an error, or the message is
  // stale. Returns false, without an answer, if the memory has been allocated in the meantime.
  [[nodiscard]] bool answer_unallocated(Fault& fault);
  // Answers a fault on an allocation that the faulting processor must not access: by a signal, or
  // only by a wake if the message may be stale.
  void answer_foreign(Fault& fault);
  // Wakes the thread, which accesses the page again.
  void let_try_again(Fault& fault);
  // The thread gets SIGBUS or SIGSEGV; `why` goes to the log. The address is never used again.
  void refuse(Fault& fault, const char* why);
  // Refuses all accesses to `dead`, a span around the page in which no allocation is live or ever
  // will be. One wake serves all its threads: for each wake Linux looks at all waiting threads, so
  // thousands of wakes would take long.
  void refuse(Fault& fault, PageSpan dead, const char* why);

  // Counts the fault in the counter of its kind, the first time.
  void count_once(Fault& fault) const;

 private:
  // Makes later accesses raise a signal.
  void forbid(const Fault& fault, PageSpan pages);
  void log_refusal(const Fault& fault, const char* why);
  void record_answer(const Fault& fault, PageSpan pages, std::uint64_t now) const;

  PageEngine& engine_;
  BlockDirectory& blocks_;
  AddressSpace& address_space_;
  AccessSamples* const samples_;
  FaultCosts& costs_;
  const Clock clock_;
  StaleFaults stale_faults_;
  std::atomic<std::uint64_t> refusals_{0};
};

}  // namespace wherry::impl
