// What cuDeviceGetAttribute answers. A pure function of the topology.
#pragma once

#include <wherry/cuda.h>

#include <optional>

#include "machine/topology.h"

namespace wherry::impl {

// Returns the attribute of device `ordinal`, or nullopt if the number is no attribute.
std::optional<int> device_attribute(CUdevice_attribute attribute, const Topology& topology,
                                    int ordinal);

}  // namespace wherry::impl
