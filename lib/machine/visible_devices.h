// CUDA_VISIBLE_DEVICES: which of the machine's devices a program sees, and in which order. The
// rules are those of the CUDA programming guide, where it has one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "machine/topology.h"

namespace wherry::impl {

// The places in `uuids` of the devices that a list names, in its order. The list: numbers, which
// are such places, and uuids as uuid_text() has them or their beginning, where only one device
// begins so; separated by commas, blanks around them ignored, letters of either case. The first one
// that names no device ends the list. One that is named twice: none at all, as with NVIDIA's
// driver.
std::vector<std::size_t> visible_devices(std::string_view list,
                                         const std::vector<std::string>& uuids);

// Leaves the devices that the list names. Null: all of them; there may be none left.
void keep_visible(Topology& topology, const char* list);

}  // namespace wherry::impl
