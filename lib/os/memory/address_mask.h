// Removes from a forked process the address space that it does not need. Afterwards every address
// is either needed to run (modules, malloc's heaps, thread-local variables: a private snapshot),
// kept by the caller, or inaccessible. New mappings appear only inside `window`, which the host
// process keeps reserved. So the host never gets an address that this process uses, and a pointer
// to the application's memory raises SIGSEGV instead of reading old data.
//
// The mask hides private anonymous mappings of at least 1 MiB, writable shared mappings of at least
// 1 MiB, the main stack, and every gap. Heaps of malloc are recognized and stay. Stacks in the C
// library's cache must be gone (drop_cached_stacks()), because the C library would give hidden
// memory to new threads. If the C library keeps such stacks and only reads records on them
// (keeps_forked_stacks()), `touch` shows which pages it reads. Private mappings of files, and
// smaller mappings, stay as snapshots.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

struct AddressMaskOptions {
  AddressRange window;  // part of the host's reservation; new mappings may appear only here
  std::span<const AddressRange> kept;  // in any order; may overlap; includes the window
  // A block that malloc returned. If the mask would hide it, malloc's heaps are unusual, and only
  // gaps are filled.
  const void* heap_block = nullptr;
  bool hide_memory = true;  // false: only gaps are filled
  // If not null, it is called once, and the hidden pages that it touches stay accessible. It may
  // start threads, and it waits for their ends. The pages are added to `touched`.
  void (*touch)() = nullptr;
  std::vector<AddressRange>* touched = nullptr;
};

// Frees the window, part of the host's reservation, for new mappings, except a stack inside it and
// `guard` inaccessible bytes below the stack. Returns 0 or an errno.
[[nodiscard]] int open_window(AddressRange window, AddressRange stack, std::size_t guard);

// Call in the new process while it has one thread, on a stack inside the open window. Allocates
// nothing without `touch`. Returns 0 or an errno.
[[nodiscard]] int mask_address_space(const AddressMaskOptions& options);

// Returns whether the mask hides such a mapping, unless the caller keeps it.
bool is_hidden(const MappedRange& mapping);

}  // namespace wherry::impl
