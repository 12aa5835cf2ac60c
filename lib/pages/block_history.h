// What a policy (policy/policy.h) remembers of a block: kept with the block's state, known to the policy alone. It does not come from
// malloc: a thread of the program waits for what is done with it, which may hold malloc's lock.
#pragma once

#include <cstddef>

#include "os/mapped_memory.h"

namespace wherry::impl {

struct BlockHistory {
  virtual ~BlockHistory() = default;

  // Throws std::bad_alloc.
  static void* operator new(std::size_t bytes) { return mapped_memory().allocate(bytes); }
  static void operator delete(void* memory, std::size_t bytes) {
    mapped_memory().deallocate(memory, bytes);
  }
};

}  // namespace wherry::impl
