// Touching: makes pages accessible to this process by accessing them, in the host and in device
// processes alike. For code that may call nothing else of the library, because it runs in a signal
// handler, in a kernel, or in a process that does not use the library.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/processor.h"
#include "memory/page_owners.h"
#include "os/memory/mapping.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

// The arena, as this process may access it.
struct TouchableMemory {
  const ArenaLayout* layout = nullptr;  // lives as long as the process
  PageOwnersView owners;
  Processor processor;

  // Makes `memory` the result of current() in this process, but not in processes that it forks.
  // Throws std::system_error, std::bad_alloc.
  static void announce(const TouchableMemory& memory);
  // Returns null if nothing was announced in this process. Any thread may call, also in a signal
  // handler.
  static const TouchableMemory* current();

  bool overlaps(std::uintptr_t start, std::size_t length) const;
  // Returns how many of the `length` bytes at `start` may be touched, counted up to the first that
  // may not. Requires: the range does not wrap around.
  std::size_t count_accessible(std::uintptr_t start, std::size_t length) const;
  // Returns true if all of these bytes may be touched and belong to one allocation.
  bool is_of_one_allocation(std::uintptr_t start, std::size_t length) const;
};

// Accesses every page of these bytes, as a thread of this process would. Changes no byte, and does
// not disturb threads that write to them at the same time. Requires: length > 0, and the bytes may
// be touched.
void touch(std::uintptr_t start, std::size_t length, Access access);

}  // namespace wherry::impl
