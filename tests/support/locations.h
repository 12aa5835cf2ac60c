// Locations of the CUDA API, as tests of advice and prefetches write them.
#pragma once

#include <wherry/wherry.h>

#include <array>

#include "support/session.h"

namespace wherry::test::locations {

constexpr CUmemLocation device(int ordinal) {
  return {CU_MEM_LOCATION_TYPE_DEVICE, ordinal};
}
inline constexpr CUmemLocation host{CU_MEM_LOCATION_TYPE_HOST, 0};
constexpr CUmemLocation host_node(int id) {
  return {CU_MEM_LOCATION_TYPE_HOST_NUMA, id};
}
// The id is ignored.
inline constexpr CUmemLocation current_node{CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT, 5};

// The first NUMA node of the host's memory. Requires: the library is initialized.
inline int first_host_node() {
  int node = -1;
  WHERRY_TRY(cuDeviceGetAttribute(&node, CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, 0));
  return node;
}

// The attributes that advice and prefetches set.
inline constexpr std::array all_attributes{CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                           CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                           CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY,
                                           CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION,
                                           CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE,
                                           CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID,
                                           CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE,
                                           CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID};

}  // namespace wherry::test::locations
