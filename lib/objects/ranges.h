// What ranges of memory and locations mean as arguments of C functions. These functions only answer
// questions; the C function chooses the error. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <optional>

#include "base/page.h"
#include "os/memory/address_map.h"
#include "pages/advice.h"
#include "runtime/runtime.h"

namespace wherry::impl {

// Whether the bytes [begin, end) lie in one live managed allocation. An end that wraps past the
// last address counts as inside, as NVIDIA's driver has it.
bool is_managed(Runtime& runtime, CUdeviceptr begin, CUdeviceptr end);

// Whether the library has addresses in the range: of the arena, the annex, or managed variables.
bool overlaps_own(const Runtime& runtime, AddressRange range);

// Returns the range of `count` bytes if it may be memory that the program allocated itself and that
// a device can access (CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS); SystemMemory finds out whether
// all of it is mapped. Returns nullopt if no device can access such memory, the range is empty or
// wraps, or the library allocated or registered a part of it.
std::optional<AddressRange> system_range(Runtime& runtime, CUdeviceptr begin, std::size_t count);

// All pages that the bytes touch; none if the range wraps. Requires: count > 0.
PageSpan pages_touched(const Runtime& runtime, CUdeviceptr begin, std::size_t count);
// The pages of which every byte is in the range, or lies past the allocation's last byte.
PageSpan pages_covered(Runtime& runtime, CUdeviceptr begin, std::size_t count);
// The pages whose attributes a range attribute describes: from the first byte's page on, `count`
// rounded up to pages; none if the range wraps.
PageSpan pages_asked_of(const Runtime& runtime, CUdeviceptr begin, std::size_t count);

bool is_device(const Runtime& runtime, int ordinal);
// Whether the location is one whose processors can access memory that the library did not allocate:
// the host, or a device with CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS. Requires: it exists.
bool accesses_pageable(const Runtime& runtime, Location location);

// Returns nullopt if the type is invalid. The device or node may not exist.
std::optional<Location> to_location(CUmemLocation named);
bool exists(const Runtime& runtime, Location location);
// Replaces "the node nearest to the calling thread" by that node; returns other locations as they
// are.
Location settled(const Runtime& runtime, Location location);

}  // namespace wherry::impl
