// What a policy (policy/policy.h) remembers of a block. The block owns it; only the policy knows
// its content. It is not allocated with malloc: the thread that waits for a fault may hold malloc's
// lock, so a handler that allocates with malloc could wait for that thread.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

#include "os/memory/mapped_memory.h"

namespace wherry::impl {

struct BlockHistory {
  virtual ~BlockHistory() = default;

  // Throws std::bad_alloc.
  static void* operator new(std::size_t bytes) { return mapped_memory().allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) {
    mapped_memory().deallocate(memory, bytes);
  }
};

// Creates the policy's history of type History if there is none yet. Returns false if there is no
// memory for it.
template <typename History>
bool has_history(std::unique_ptr<BlockHistory>& history) {
  if (history) return true;
  try {
    history = std::make_unique<History>();
    return true;
  } catch (const std::bad_alloc&) {
    return false;
  }
}

}  // namespace wherry::impl
