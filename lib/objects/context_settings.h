// The settings of a context, which a program can set and query. Only the way of waiting has an
// effect: kernels have the stacks and the heap of their device's process. Any thread.
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

// Returns how many ns a thread that waits for work polls before it sleeps (WorkContext): with
// CU_CTX_SCHED_SPIN long, if no other thread needs the CPU; with CU_CTX_SCHED_BLOCKING_SYNC not at
// all; otherwise for a moment. Requires: the flags are valid.
std::uint64_t wait_spin_of(unsigned flags);

class ContextSettings {
 public:
  explicit ContextSettings(unsigned context_flags) : flags(context_flags) {}

  // Returns nullopt if there is no such limit.
  std::optional<std::size_t> limit(CUlimit which) const;
  // Returns false if there is no such limit.
  bool set_limit(CUlimit which, std::size_t value);

  std::atomic<unsigned> flags;
  std::atomic<CUfunc_cache> cache_config = CU_FUNC_CACHE_PREFER_NONE;
  std::atomic<int> users = 1;  // cuCtxCreate's, and one for each cuCtxAttach

 private:
  // The limits, indexed by CUlimit; initially the values of most GPUs.
  std::array<std::atomic<std::size_t>, 3> limits_{1024, std::size_t{1} << 20, std::size_t{8} << 20};
};

}  // namespace wherry::impl
