// The library's own heap, for allocations of its C++ code in libwherry.so (os/memory/own_new.cc).
//
// The program may define operator new or malloc. Their memory may be managed, and a thread that
// waits for the library may hold the allocator's locks. So threads that resolve faults, and threads
// that hold locks, neither call the program's allocator nor access its memory.
//
// The heap is one range of addresses, reserved at the first use and made accessible as it grows.
// Freed memory is reused for objects of similar size and never for others. Any thread, and signal
// handlers: there is no lock.
#pragma once

#include <cstddef>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Returns null if there is no memory, or if the range is full. `alignment` is a power of two, at
// most 4096.
[[nodiscard]] void* allocate_own(std::size_t bytes, std::size_t alignment);
// Returns false if the memory is not from this heap.
[[nodiscard]] bool free_own(void* memory);
// How many bytes the object may use; 0 if it is not from this heap. Requires: it is not free.
std::size_t own_bytes(const void* memory);
// Whether the heap's range could be reserved.
[[nodiscard]] bool has_own_heap();
// Returns an empty range before the first use.
AddressRange own_heap_range();

}  // namespace wherry::impl
