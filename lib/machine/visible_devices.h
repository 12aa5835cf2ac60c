// CUDA_VISIBLE_DEVICES: which of the machine's devices a program sees, and in which order. The
// rules are those of the CUDA programming guide, where it has one.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "machine/topology.h"

namespace wherry::impl {

// The indexes in `uuids` of the devices that a list names, in its order. Entries of the list are
// such indexes, or uuids of uuid_text() or their beginnings, if only one device begins so. Commas
// separate them; blanks around them and upper or lower case do not matter. The first entry that
// names no device ends the list. If a device is named twice, none is visible, as with NVIDIA's
// driver.
std::vector<std::size_t> visible_devices(std::string_view list,
                                         const std::vector<std::string>& uuids);

// Removes the devices that the list does not name, maybe all. A null list keeps all.
void keep_visible(Topology& topology, const char* list);

}  // namespace wherry::impl
