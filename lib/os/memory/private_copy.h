// Memory of one process that another one gets a private copy of, at the same addresses, by way of a
// file.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "os/files/fd.h"
#include "os/memory/address_map.h"

namespace wherry::impl {

// An in-memory file as long as `extent` with copies of these parts of it, each at its place.
// Requires: they are readable. Throws std::system_error.
Fd copy_to_file(const std::string& name, AddressRange extent, std::span<const AddressRange> parts);

// Maps a private copy of the file from `offset` on over the range, whatever is there. Returns 0 or
// an errno.
[[nodiscard]] int map_private_copy(AddressRange range, const Fd& file, std::uint64_t offset,
                                   bool writable, bool executable);

// Nobody can access the range any more, whatever is there. Returns 0 or an errno.
[[nodiscard]] int forbid_range(AddressRange range);

}  // namespace wherry::impl
