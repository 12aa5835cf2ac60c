// What a policy (policy/policy.h) remembers of a block: kept with the block's state, known to the
// policy alone. It does not come from malloc: a thread of the program waits for what is done with
// it, which may hold malloc's lock.
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

// Has there be a history, of the policy's own kind. False: there is none, and no memory for it.
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
