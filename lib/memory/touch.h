// Touching: making pages accessible to this process by accessing them, in the host and in devices
// alike. For code that may ask nothing else of the library: it may be in a signal handler, in a
// kernel, or in a process that is none of ours.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/processor.h"
#include "memory/page_owners.h"
#include "os/memory/mapping.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

// The arena as this process may access it.
struct TouchableMemory {
  const ArenaLayout* layout = nullptr;  // lives as long as the process
  PageOwnersView owners;
  Processor processor;

  // Makes this what current() is, in this process and not in those that it forks. Throws
  // std::system_error, std::bad_alloc.
  static void announce(const TouchableMemory& memory);
  // Null where nothing was announced. Any thread, also in a signal handler.
  static const TouchableMemory* current();

  bool overlaps(std::uintptr_t start, std::size_t length) const;
  // How many of the `length` bytes from `start` on may be touched, up to the first that may not.
  // Requires that they do not wrap around.
  std::size_t count_accessible(std::uintptr_t start, std::size_t length) const;
  // Whether all of them may be, and belong to one allocation.
  bool is_of_one_allocation(std::uintptr_t start, std::size_t length) const;
};

// Accesses every page of these bytes, of which there are some, as a thread of this process would.
// Changes no byte, and takes nothing from those who write them at the same time. Requires: they may
// be touched.
void touch(std::uintptr_t start, std::size_t length, Access access);

}  // namespace wherry::impl
