// Pages that the policy has stay where they are for a while. When it is over those who map them
// elsewhere than at home fault again, and the policy is asked about them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <queue>

#include "base/lock.h"
#include "migration/advice_effects.h"
#include "migration/page_engine.h"
#include "os/memory/mapped_memory.h"
#include "pages/block_directory.h"
#include "policy/policy.h"

namespace wherry::impl {

class TemporaryPins {
 public:
  TemporaryPins(PageEngine& engine, AdviceEffects& effects, BlockDirectory& blocks,
                const Policy& policy)
      : engine_(engine), effects_(effects), blocks_(blocks), policy_(policy) {}

  // These pages stay at `at` until then, as now_ns() counts; 0: for ever. False: there is no memory
  // to remember it.
  bool begin(std::uint64_t number, PageRun run, Processor at, std::uint64_t until_ns)
      EXCLUDES(lock_);

  // When the first of these whiles ends; nothing: none is running.
  std::optional<std::uint64_t> next_end() const {
    const std::uint64_t end = next_end_.load(std::memory_order_relaxed);
    return end == ~std::uint64_t{0} ? std::nullopt : std::optional(end);
  }
  // Has pages whose while has ended move again.
  void end_due(std::uint64_t now) EXCLUDES(lock_);

 private:
  struct TemporaryPin {
    std::uint64_t until_ns = 0;
    std::uint64_t number = 0;  // of the block
    PageRun run;
    int tries = 0;  // to have nobody see it elsewhere than at home

    bool operator<(const TemporaryPin& other) const { return until_ns > other.until_ns; }
  };

  void push(const TemporaryPin& pin) REQUIRES(lock_);
  std::optional<TemporaryPin> pop_due(std::uint64_t now) EXCLUDES(lock_);
  // Tells the policy, and who asks for counters and events. The pages of the block that stay no
  // more.
  PageMask end(const LockedBlock& block, std::uint64_t now) REQUIRES(block.state.lock);
  // Pages begin, or end, to stay at `at`.
  void record(EventKind kind, std::uint64_t number, PageRun run, Processor at) const;

  PageEngine& engine_;
  AdviceEffects& effects_;
  BlockDirectory& blocks_;
  const Policy& policy_;

  mutable Mutex lock_{LockOrder::temporary_pins};
  // The first to end on top.
  std::priority_queue<TemporaryPin, std::pmr::vector<TemporaryPin>> temporary_pins_ GUARDED_BY(
      lock_){std::less<TemporaryPin>(), std::pmr::vector<TemporaryPin>(&mapped_memory())};
  std::atomic<std::uint64_t> next_end_{~std::uint64_t{0}};  // the top's, so that most need no lock
};

}  // namespace wherry::impl
