// The settings of a context, which a program can set and query. Of these only the way of waiting
// has an effect: kernels have the stacks and the heap of their device's process. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace wherry::impl {

// Whether the flags are valid: at most one way of waiting, and no unknown bit.
bool are_context_flags(unsigned flags);

// How long a thread that waits for work looks for its end before it sleeps (WorkContext), in ns, by
// the way of waiting: CU_CTX_SCHED_SPIN as long as other threads do not need the CPU,
// CU_CTX_SCHED_BLOCKING_SYNC not at all, the others for a moment. Requires: the flags are valid.
std::uint64_t wait_spin_of(unsigned flags);

class ContextSettings {
 public:
  explicit ContextSettings(unsigned context_flags) : flags(context_flags) {}

  // Nothing: there is no such limit.
  std::optional<std::size_t> limit(CUlimit which) const;
  // False: there is no such limit.
  bool set_limit(CUlimit which, std::size_t value);

  std::atomic<unsigned> flags;
  std::atomic<CUfunc_cache> cache_config = CU_FUNC_CACHE_PREFER_NONE;
  std::atomic<int> users = 1;  // cuCtxCreate's, and one for each cuCtxAttach

 private:
  // By CUlimit. At first what they are on most GPUs.
  std::array<std::atomic<std::size_t>, 3> limits_{1024, std::size_t{1} << 20, std::size_t{8} << 20};
};

}  // namespace wherry::impl
