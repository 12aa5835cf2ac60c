// A heap of the library's own, for what its C++ code allocates in libwherry.so (os/own_new.cc).
//
// The program may have an operator new or a malloc of its own, whose memory may be managed, or
// whose locks a thread may hold that waits for the library. So the library takes none of it:
// threads that answer faults, and threads that hold locks, neither call the program's allocator nor
// touch its memory.
//
// All of the heap lies in one range of addresses, reserved at the first use and made accessible as
// it grows. What is freed is used again for objects of a like size, and is never given to others.
// Any thread, also in signal handlers: there is no lock.
#pragma once

#include <cstddef>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Null: there is no memory, or the range is used up. `alignment`: a power of two, at most 4096.
[[nodiscard]] void* allocate_own(std::size_t bytes, std::size_t alignment);
// False: it is not of this heap.
[[nodiscard]] bool free_own(void* memory);
// Whether the range can be had at all.
[[nodiscard]] bool has_own_heap();
// Empty before the first use.
AddressRange own_heap_range();

}  // namespace wherry::impl
