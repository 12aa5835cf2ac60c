// What a range of managed memory and a location mean where a C function takes them as arguments.
// Answers only: which error an argument deserves is the function's business.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <optional>

#include "base/page.h"
#include "os/memory/address_map.h"
#include "pages/advice.h"
#include "runtime/runtime.h"

namespace wherry::impl {

// Whether the bytes [begin, end) lie in one live managed allocation; neighbouring ones are no range
// together. An end that wraps past the last address counts as inside, as a real driver has it.
bool is_managed(Runtime& runtime, CUdeviceptr begin, CUdeviceptr end);

// Whether the library has addresses in the range: of the arena, the annex, or managed variables.
bool overlaps_own(const Runtime& runtime, AddressRange range);

// All pages that the bytes touch; none where they wrap. Requires: there are bytes.
PageSpan pages_touched(const Runtime& runtime, CUdeviceptr begin, std::size_t count);
// The pages of which every byte is among them, or lies past the allocation's last.
PageSpan pages_covered(Runtime& runtime, CUdeviceptr begin, std::size_t count);
// The pages that attributes are asked of: from the first byte's page on, `count` rounded up; none
// where they wrap.
PageSpan pages_asked_of(const Runtime& runtime, CUdeviceptr begin, std::size_t count);

bool is_device(const Runtime& runtime, int ordinal);

// What is named; nothing when its type is none. It may be a device or node that does not exist.
std::optional<Location> to_location(CUmemLocation named);
bool exists(const Runtime& runtime, Location location);
// The same place, said without the caller: "the node nearest to the caller" becomes that node.
Location settled(const Runtime& runtime, Location location);

}  // namespace wherry::impl
