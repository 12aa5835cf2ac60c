// Gives another process a private copy of this process's memory, at the same addresses, through a
// file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "os/files/fd.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

// Creates an in-memory file as long as `extent` that contains copies of these parts, each at its
// offset in `extent`. Requires: the parts are readable. Throws std::system_error.
Fd copy_to_file(const std::string& name, AddressRange extent, std::span<const AddressRange> parts);

// Maps a private copy of the file, from `offset` on, over the range, replacing what is mapped
// there. Returns 0 or an errno.
[[nodiscard]] int map_private_copy(AddressRange range, const Fd& file, std::uint64_t offset,
                                   bool writable, bool executable);

// Makes the range inaccessible, whatever is mapped there. Returns 0 or an errno.
[[nodiscard]] int forbid_range(AddressRange range);

}  // namespace wherry::impl
