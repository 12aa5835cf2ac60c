// What cuDeviceGetAttribute answers. A pure function of the topology.
#pragma once

#include <wherry/cuda.h>

#include <optional>

#include "machine/topology.h"

namespace wherry::impl {

// The attribute of device `ordinal`; nothing for a number that is no attribute.
std::optional<int> device_attribute(CUdevice_attribute attribute, const Topology& topology,
                                    int ordinal);

}  // namespace wherry::impl
