// The C functions of memory advice.
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/ranges.h"

using namespace wherry::impl;

namespace {

using AdviceKind = AdviceChange::Kind;

// ---- advice

std::optional<AdviceKind> find_kind(CUmem_advise advice) {
  switch (static_cast<int>(advice)) {
    case CU_MEM_ADVISE_SET_READ_MOSTLY:
      return AdviceKind::set_read_mostly;
    case CU_MEM_ADVISE_UNSET_READ_MOSTLY:
      return AdviceKind::unset_read_mostly;
    case CU_MEM_ADVISE_SET_PREFERRED_LOCATION:
      return AdviceKind::set_preferred;
    case CU_MEM_ADVISE_UNSET_PREFERRED_LOCATION:
      return AdviceKind::unset_preferred;
    case CU_MEM_ADVISE_SET_ACCESSED_BY:
      return AdviceKind::set_accessed_by;
    case CU_MEM_ADVISE_UNSET_ACCESSED_BY:
      return AdviceKind::unset_accessed_by;
    default:
      return std::nullopt;
  }
}

bool needs_location(AdviceKind kind) {
  return kind == AdviceKind::set_preferred || kind == AdviceKind::set_accessed_by ||
         kind == AdviceKind::unset_accessed_by;
}

// Finds the location that the old signature of cuMemAdvise passes as a number. A device that does
// not exist has an error code of its own.
CUresult find_location(const Runtime& runtime, AdviceKind kind, CUdevice device,
                       Location& location) {
  if (!needs_location(kind)) return CUDA_SUCCESS;
  if (device != CU_DEVICE_CPU && !is_device(runtime, device))
    return refuse_device(runtime, device, /*or_host=*/true);
  location = device == CU_DEVICE_CPU ? Location::host() : Location::device(device);
  return CUDA_SUCCESS;
}

// Finds the location that the new signature passes as a CUmemLocation. Its type must be valid even
// if the advice needs none.
CUresult find_location(const Runtime& runtime, AdviceKind kind, CUmemLocation named,
                       Location& location) {
  const auto found = to_location(named);
  if (!found) return refuse_location(runtime, named, CUDA_ERROR_INVALID_VALUE);
  location = settled(runtime, *found);
  // Accessed-by advice is about mappings, which belong to a processor; a NUMA node is no processor.
  const bool fits = kind == AdviceKind::set_preferred || location.kind != Location::Kind::host_node;
  return !needs_location(kind) || (exists(runtime, location) && fits)
             ? CUDA_SUCCESS
             : refuse_location(runtime, named, CUDA_ERROR_INVALID_VALUE);
}

// A device may be preferred, or advised as an accessor, only if the host and the device can access
// the memory concurrently.
bool is_allowed(const Runtime& runtime, const AdviceChange& change) {
  const bool sets =
      change.kind == AdviceKind::set_preferred || change.kind == AdviceKind::set_accessed_by;
  return !sets || change.location.kind != Location::Kind::device ||
         runtime.device_config(change.location.id).concurrent;
}

// Advises memory that the library did not allocate. A device that is named must have access to it.
CUresult advise_system(Runtime& runtime, AddressRange range, const AdviceChange& change) {
  if (needs_location(change.kind) && !accesses_pageable(runtime, change.location))
    return refuse_pageable(change.location.id);
  return runtime.system_memory().advise(range, change)
             ? CUDA_SUCCESS
             : refuse_range(runtime, range.start, range.size());
}

template <typename Place>
CUresult advise(CUdeviceptr devPtr, std::size_t count, CUmem_advise advice, Place place,
                const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) -> CUresult {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    Runtime& runtime = driver.runtime();
    const auto kind = find_kind(advice);
    if (!kind)
      return fail(CUDA_ERROR_INVALID_VALUE, "advice is {}; pass a value of CUmem_advise",
                  static_cast<int>(advice));
    if (count == 0 || count > std::numeric_limits<CUdeviceptr>::max() - devPtr)
      return refuse_range(runtime, devPtr, count);
    std::optional<AddressRange> system;
    if (!is_managed(runtime, devPtr, devPtr + count)) {
      system = system_range(runtime, devPtr, count);
      if (!system) return refuse_range(runtime, devPtr, count);
    }
    AdviceChange change{*kind, {}};
    const CUresult found = find_location(runtime, *kind, place, change.location);
    if (found != CUDA_SUCCESS) return found;
    if (!is_allowed(runtime, change)) return refuse_exclusive(change.location.id);
    if (system) return advise_system(runtime, *system, change);
    return runtime.advice().advise(pages_touched(runtime, devPtr, count), change)
               ? CUDA_SUCCESS
               : refuse_range(runtime, devPtr, count);  // another thread has freed it
  });
}

// ---- range attributes

// Returns part(value) if it is the same for all pages of the map, otherwise `none`.
template <typename Map, typename Value, typename Part>
Value common(const Map& map, PageSpan pages, Value none, const Part& part) {
  std::optional<Value> found;
  map.for_each(pages, [&](const typename Map::Segment& segment) {
    const Value value = part(segment.value);
    if (found && *found != value) {
      found = none;
      return false;
    }
    found = value;
    return true;
  });
  return found.value_or(none);
}

bool all_read_mostly(const AdviceMap& map, PageSpan pages) {
  bool all = true;
  map.for_each(pages,
               [&](const AdviceMap::Segment& segment) { return all = segment.value.read_mostly; });
  return all;
}

// The number by which the oldest attributes name a processor. A node of the host counts as the
// host.
int number_of(Location location) {
  return location.is_none() ? CU_DEVICE_INVALID : location.processor().ordinal();
}

int type_of(Location location) {
  switch (location.kind) {
    case Location::Kind::none:
      return CU_MEM_LOCATION_TYPE_INVALID;
    case Location::Kind::device:
      return CU_MEM_LOCATION_TYPE_DEVICE;
    case Location::Kind::host:
      return CU_MEM_LOCATION_TYPE_HOST;
    case Location::Kind::host_node:
      return CU_MEM_LOCATION_TYPE_HOST_NUMA;
    case Location::Kind::callers_node:
      return CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT;
  }
  return CU_MEM_LOCATION_TYPE_INVALID;
}

int id_of(Location location) {
  const bool is_node =
      location.kind == Location::Kind::host_node || location.kind == Location::Kind::callers_node;
  return is_node ? location.id : number_of(location);
}

void put(void* data, std::size_t index, std::int32_t value) {
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof value, &value, sizeof value);
}

// The advice and the prefetches of some pages, for range attributes.
struct Said {
  PageSpan pages;
  const AdviceMap& advice;
  const LastPrefetches& prefetches;
};

// Lists devices in ascending order, then the host.
void put_accessed_by(const Said& said, int devices, void* data, std::size_t size) {
  ProcessorMask all = (ProcessorMask{2} << devices) - 1;
  said.advice.for_each(said.pages, [&](const AdviceMap::Segment& segment) {
    all &= segment.value.accessed_by;
    return all != 0;
  });
  const std::size_t places = size / sizeof(std::int32_t);
  std::size_t used = 0;
  const auto add = [&](Processor p) {
    if ((all & p.bit()) != 0 && used < places) put(data, used++, p.ordinal());
  };
  for (int device = 0; device < devices; ++device) add(Processor::device(device));
  add(Processor::host());
  while (used < places) put(data, used++, CU_DEVICE_INVALID);
}

// Returns nullopt if the range is neither managed nor the program's other memory.
std::optional<Said> find_said(Runtime& runtime, CUdeviceptr devPtr, std::size_t count) {
  if (is_managed(runtime, devPtr, devPtr + count)) {
    const ProgramAdvice& advice = runtime.advice();
    return Said{pages_asked_of(runtime, devPtr, count), advice.map(), advice.last_prefetches()};
  }
  const auto system = system_range(runtime, devPtr, count);
  if (!system || !runtime.system_memory().look(*system)) return std::nullopt;
  const SystemMemoryBooks& books = runtime.system_memory().books();
  const PageSpan pages{page_at_offset(devPtr), round_up(count, page_size) / page_size};
  return Said{pages, books.advice(), books.last_prefetches()};
}

CUresult check_answer(const void* data, std::size_t size, CUmem_range_attribute attribute) {
  const int number = static_cast<int>(attribute);
  if (data == nullptr) return refuse_null("data");
  if (number < CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY ||
      number > CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID)
    return fail(CUDA_ERROR_INVALID_VALUE, "attribute is {}; pass a value of CUmem_range_attribute",
                number);
  const bool is_list = number == CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY;
  if (is_list ? size != 0 && size % sizeof(std::int32_t) == 0 : size == sizeof(std::int32_t))
    return CUDA_SUCCESS;
  return is_list ? fail(CUDA_ERROR_INVALID_VALUE,
                        "dataSize is {}; pass a multiple of 4, the size of an array of int", size)
                 : fail(CUDA_ERROR_INVALID_VALUE, "dataSize is {}; attribute {} is an int: pass 4",
                        size, number);
}

// Requires: check_answer() succeeds.
void put_attribute(const Said& said, int devices, CUmem_range_attribute attribute, void* data,
                   std::size_t size) {
  const PageSpan pages = said.pages;
  const AdviceMap& map = said.advice;
  const LastPrefetches& prefetches = said.prefetches;
  const auto preferred_number = [&] {
    return common(map, pages, CU_DEVICE_INVALID,
                  [](const Advice& advice) { return number_of(advice.preferred); });
  };
  const auto preferred = [&] {
    return common(map, pages, Location{}, [](const Advice& advice) { return advice.preferred; });
  };
  const auto last_prefetch = [&] {
    return common(prefetches, pages, Location{}, [](Location location) { return location; });
  };
  switch (attribute) {
    case CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY:
      return put(data, 0, all_read_mostly(map, pages) ? 1 : 0);
    case CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY:
      return put_accessed_by(said, devices, data, size);
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION:
      return put(data, 0, preferred_number());
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE:
      return put(data, 0, type_of(preferred()));
    case CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID:
      return put(data, 0, id_of(preferred()));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION:
      return put(data, 0, common(prefetches, pages, CU_DEVICE_INVALID, number_of));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE:
      return put(data, 0, type_of(last_prefetch()));
    case CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID:
      return put(data, 0, id_of(last_prefetch()));
  }
}

CUresult get_attributes(void** data, const std::size_t* dataSizes,
                        const CUmem_range_attribute* attributes, std::size_t numAttributes,
                        CUdeviceptr devPtr, std::size_t count,
                        const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) -> CUresult {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (data == nullptr) return refuse_null("data");
    if (dataSizes == nullptr) return refuse_null("dataSizes");
    if (attributes == nullptr) return refuse_null("attributes");
    if (numAttributes == 0)
      return fail(CUDA_ERROR_INVALID_VALUE, "numAttributes is 0; ask for at least 1");
    Runtime& runtime = driver.runtime();
    if (count == 0) return refuse_range(runtime, devPtr, count);
    for (std::size_t i = 0; i < numAttributes; ++i) {
      const CUresult checked = check_answer(data[i], dataSizes[i], attributes[i]);
      if (checked != CUDA_SUCCESS) return checked;
    }
    const auto said = find_said(runtime, devPtr, count);
    if (!said) return refuse_range(runtime, devPtr, count);
    for (std::size_t i = 0; i < numAttributes; ++i)
      put_attribute(*said, runtime.device_count(), attributes[i], data[i], dataSizes[i]);
    return CUDA_SUCCESS;
  });
}

}  // namespace

CUresult cuMemAdvise(CUdeviceptr devPtr, size_t count, CUmem_advise advice, CUdevice device) {
  return advise(devPtr, count, advice, device);
}
CUresult cuMemAdvise_v2(CUdeviceptr devPtr, size_t count, CUmem_advise advice,
                        CUmemLocation location) {
  return advise(devPtr, count, advice, location);
}

CUresult cuMemRangeGetAttributes(void** data, size_t* dataSizes, CUmem_range_attribute* attributes,
                                 size_t numAttributes, CUdeviceptr devPtr, size_t count) {
  return get_attributes(data, dataSizes, attributes, numAttributes, devPtr, count);
}

CUresult cuMemRangeGetAttribute(void* data, size_t dataSize, CUmem_range_attribute attribute,
                                CUdeviceptr devPtr, size_t count) {
  return get_attributes(&data, &dataSize, &attribute, 1, devPtr, count);
}
