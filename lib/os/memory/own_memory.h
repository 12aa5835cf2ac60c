// Reads memory of this process that may not be readable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

struct MemoryPart {
  std::uintptr_t address = 0;
  std::span<std::byte> into;
  std::size_t read = 0;  // set by read_readable()
};

// Copies from each part the bytes before the first unreadable one. If Linux forbids
// process_vm_readv(), only the stack is read. Throws std::bad_alloc.
void read_readable(std::span<MemoryPart> parts);

}  // namespace wherry::impl
