// Takes from a forked process the address space that is not its own. Afterwards every address is
// one of: needed to run (modules, malloc's heaps, thread-local variables: a private snapshot),
// kept by the caller, or inaccessible; and new mappings appear only inside `window`, which the host
// process keeps reserved. So an address that the host gets later is never one that this process
// uses, and a pointer to the application's memory ends in SIGSEGV and not in old data.
//
// What is hidden: private anonymous mappings of a megabyte and more, writable shared ones of that
// size, the main stack, and every gap. Heaps of malloc are recognized and stay. Stacks in the C
// library's cache must be gone (drop_cached_stacks): it would hand hidden memory to new threads.
// Private mappings of files and what is smaller stay as snapshots.
#pragma once

#include <cstddef>
#include <span>

#include "os/memory/address_map.h"

namespace wherry::impl {

struct AddressMaskOptions {
  AddressRange window;                 // of the host's reservation; where new mappings may appear
  std::span<const AddressRange> kept;  // in any order, may overlap; the window is one of them
  const void* heap_block = nullptr;    // something that malloc returned: when it would be hidden,
                                       // malloc's heaps are unusual, and only gaps are filled
  bool hide_memory = true;             // false: only gaps are filled
};

// Gives the window, of which the host holds a reservation, to new mappings, all but a stack inside
// it and `guard` inaccessible bytes below that. Returns 0 or an errno.
[[nodiscard]] int open_window(AddressRange window, AddressRange stack, std::size_t guard);

// In the new process while it has one thread, on a stack inside the open window.
// Allocates nothing. Returns 0 or an errno.
[[nodiscard]] int mask_address_space(const AddressMaskOptions& options);

// Whether the mask hides such a mapping, apart from what is kept.
bool is_hidden(const MappedRange& mapping);

}  // namespace wherry::impl
