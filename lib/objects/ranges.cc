#include "objects/ranges.h"

#include <algorithm>
#include <cerrno>

#include "os/memory/numa.h"

namespace wherry::impl {
namespace {

// Addresses outside the arena become an offset past its end, where nothing is allocated.
std::uint64_t offset_of(const Runtime& runtime, CUdeviceptr address) {
  return runtime.heap().offset_of(address).value_or(runtime.layout().bytes());
}

bool wraps(CUdeviceptr begin, std::size_t count) {
  return begin + count < begin;
}

int nearest_host_node(const Topology& topology) {
  const int here = current_node();
  return *std::min_element(
      topology.host_nodes.begin(), topology.host_nodes.end(),
      [here](int a, int b) { return node_distance(here, a) < node_distance(here, b); });
}

}  // namespace

bool is_managed(Runtime& runtime, CUdeviceptr begin, CUdeviceptr end) {
  // find_record() takes the same time however many records there are.
  const auto record = runtime.heap().find_record(begin);
  return record && record->kind == MemoryKind::managed && end <= record->base + record->bytes;
}

bool overlaps_own(const Runtime& runtime, AddressRange range) {
  const auto overlaps = [&](std::uintptr_t start, std::size_t bytes) {
    return range.start < start + bytes && range.end > start;
  };
  const ArenaLayout& layout = runtime.layout();
  return runtime.annex().overlaps(range) || overlaps(layout.base(), layout.bytes()) ||
         layout.for_each_placed([&](const PlacedPages& placed) {
           return overlaps(placed.address, placed.pages.bytes()) ? EEXIST : 0;
         }) != 0;
}

std::optional<AddressRange> system_range(Runtime& runtime, CUdeviceptr begin, std::size_t count) {
  const bool is_known = std::ranges::any_of(
      runtime.topology().devices,
      [](const DeviceConfig& device) { return accesses_pageable(device.kind); });
  if (!is_known || count == 0 || wraps(begin, count)) return {};
  const AddressRange range{begin, begin + count};
  if (overlaps_own(runtime, range) || runtime.memory().is_taken(begin, count)) return {};
  return range;
}

PageSpan pages_touched(const Runtime& runtime, CUdeviceptr begin, std::size_t count) {
  const std::uint64_t offset = offset_of(runtime, begin);
  const PageIndex first = page_at_offset(offset);
  return {first, wraps(begin, count) ? 0 : page_at_offset(offset + count - 1) + 1 - first};
}

PageSpan pages_covered(Runtime& runtime, CUdeviceptr begin, std::size_t count) {
  const std::uint64_t offset = offset_of(runtime, begin);
  const PageIndex first = page_at_offset(round_up(offset, page_size));
  if (wraps(begin, count)) return {first, 0};
  const CUdeviceptr end = begin + count;
  const auto allocation = runtime.heap().find(begin);
  const bool to_the_end =
      allocation && end == runtime.heap().address_of(*allocation) + allocation->bytes;
  const std::uint64_t end_offset = offset + count;
  const PageIndex end_page =
      page_at_offset(to_the_end ? round_up(end_offset, page_size) : end_offset);
  return {first, end_page > first ? end_page - first : 0};
}

PageSpan pages_asked_of(const Runtime& runtime, CUdeviceptr begin, std::size_t count) {
  return {page_at_offset(offset_of(runtime, begin)),
          wraps(begin, count) ? 0 : round_up(count, page_size) / page_size};
}

bool is_device(const Runtime& runtime, int ordinal) {
  return ordinal >= 0 && ordinal < runtime.device_count();
}

bool accesses_pageable(const Runtime& runtime, Location location) {
  return location.kind != Location::Kind::device ||
         accesses_pageable(runtime.device_config(location.id).kind);
}

std::optional<Location> to_location(CUmemLocation named) {
  switch (static_cast<int>(named.type)) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return Location::device(named.id);
    case CU_MEM_LOCATION_TYPE_HOST:
      return Location::host();
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return Location::host_node(named.id);
    case CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT:
      return Location::callers_node(named.id);
    default:
      return std::nullopt;
  }
}

bool exists(const Runtime& runtime, Location location) {
  const auto& host_nodes = runtime.topology().host_nodes;
  switch (location.kind) {
    case Location::Kind::none:
      return false;
    case Location::Kind::device:
      return is_device(runtime, location.id);
    case Location::Kind::host_node:
      return std::find(host_nodes.begin(), host_nodes.end(), location.id) != host_nodes.end();
    case Location::Kind::host:
    case Location::Kind::callers_node:
      return true;
  }
  return false;
}

Location settled(const Runtime& runtime, Location location) {
  return location.kind == Location::Kind::callers_node
             ? Location::host_node(nearest_host_node(runtime.topology()))
             : location;
}

}  // namespace wherry::impl
