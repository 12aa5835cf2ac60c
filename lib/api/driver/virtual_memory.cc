// The C functions of virtual memory management by the program.
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "api/entry.h"
#include "runtime/ranges.h"
#include "runtime/shareable_handles.h"

using namespace wherry::impl;

namespace {

constexpr std::size_t granularity_bytes = block_size;

bool is_whole(std::size_t bytes) {
  return bytes != 0 && bytes % granularity_bytes == 0;
}
// Returns nullopt if the range overflows, or is not a multiple of the granularity.
std::optional<AddressRange> range_of(CUdeviceptr start, std::size_t bytes) {
  std::uintptr_t end = 0;
  if (start % granularity_bytes != 0 || !is_whole(bytes) ||
      __builtin_add_overflow(start, bytes, &end))
    return std::nullopt;
  return AddressRange{start, end};
}

// ---- properties

// Checks the handle types with which memory is to be exportable.
CUresult check_wanted_handle_types(CUmemAllocationHandleType types) {
  switch (static_cast<int>(types)) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return CUDA_ERROR_NOT_PERMITTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult find_location(Driver& driver, const CUmemLocation& named, Location& location) {
  const auto found = to_location(named);
  if (!found || found->kind == Location::Kind::callers_node) return CUDA_ERROR_INVALID_VALUE;
  location = *found;
  if (exists(driver.runtime(), location)) return CUDA_SUCCESS;
  return location.kind == Location::Kind::device ? CUDA_ERROR_INVALID_DEVICE
                                                 : CUDA_ERROR_INVALID_VALUE;
}

CUresult find_traits(Driver& driver, const CUmemAllocationProp& wanted, PhysicalTraits& traits) {
  if (wanted.type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  const auto& flags = wanted.allocFlags;
  if (flags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC || flags.gpuDirectRDMACapable > 1 ||
      flags.usage != 0 || wanted.win32HandleMetaData != nullptr ||
      !std::ranges::all_of(flags.reserved, [](auto byte) { return byte == 0; }))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_wanted_handle_types(wanted.requestedHandleTypes);
  if (result == CUDA_SUCCESS) result = find_location(driver, wanted.location, traits.location);
  if (result != CUDA_SUCCESS) return result;
  traits.is_exportable = wanted.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  traits.is_for_third_parties = flags.gpuDirectRDMACapable != 0;
  const bool is_of_host = traits.location.kind == Location::Kind::host;
  return is_of_host && traits.is_exportable ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUmemLocation named(const Location& location) {
  switch (location.kind) {
    case Location::Kind::device:
      return {CU_MEM_LOCATION_TYPE_DEVICE, location.id};
    case Location::Kind::host_node:
      return {CU_MEM_LOCATION_TYPE_HOST_NUMA, location.id};
    default:
      return {CU_MEM_LOCATION_TYPE_HOST, 0};
  }
}

CUmemAllocationProp properties_of(const PhysicalTraits& traits) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.requestedHandleTypes =
      traits.is_exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
  properties.location = named(traits.location);
  properties.allocFlags.gpuDirectRDMACapable = traits.is_for_third_parties;
  return properties;
}

// ---- access

CUresult find_grantee(Driver& driver, const CUmemLocation& location,
                      VirtualMemory::Grant& grantee) {
  switch (static_cast<int>(location.type)) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      if (driver.device(location.id) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
      grantee.processor = Processor::device(location.id);
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      grantee.processor = Processor::host();
      grantee.is_for_nodes = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

std::optional<Access> to_access(CUmemAccess_flags flags) {
  switch (static_cast<int>(flags)) {
    case CU_MEM_ACCESS_FLAGS_PROT_NONE:
      return Access::none;
    case CU_MEM_ACCESS_FLAGS_PROT_READ:
      return Access::read;
    case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
      return Access::write;
    default:
      return std::nullopt;
  }
}

CUmemAccess_flags to_flags(Access access) {
  switch (access) {
    case Access::none:
      return CU_MEM_ACCESS_FLAGS_PROT_NONE;
    case Access::read:
      return CU_MEM_ACCESS_FLAGS_PROT_READ;
    case Access::write:
      break;
  }
  return CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

CUresult set_access(Driver& driver, AddressRange place, std::span<const CUmemAccessDesc> wanted) {
  std::vector<VirtualMemory::Grant> grants;
  VirtualMemory::Accesses left;
  left.fill(Access::write);
  for (const CUmemAccessDesc& each : wanted) {
    VirtualMemory::Grant grant;
    const CUresult found = find_grantee(driver, each.location, grant);
    const auto access = to_access(each.flags);
    // This error also for a device that does not exist: NVIDIA's driver has it here, but not in the
    // functions that query access.
    if (found != CUDA_SUCCESS || !access) return CUDA_ERROR_INVALID_VALUE;
    grant.access = *access;
    left[static_cast<std::size_t>(grant.processor.index)] = grant.access;
    grants.push_back(grant);
  }
  // Work that was launched earlier may still access the memory.
  if (driver.virtual_memory().takes_away(place, left)) driver.wait_for_all_work();
  return driver.virtual_memory().set_access(place, grants);
}

CUresult create(Driver& driver, CUmemGenericAllocationHandle* handle, std::size_t bytes,
                const PhysicalTraits& traits) {
  const auto make = [&] { return create_physical_memory(driver.runtime(), traits, bytes); };
  auto memory = make();
  if (!memory && traits.location.kind == Location::Kind::device &&
      driver.give_back(*driver.device(traits.location.id)))
    memory = make();
  if (!memory) return CUDA_ERROR_OUT_OF_MEMORY;
  *handle = driver.virtual_memory().add(std::move(*memory));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  return enter([&](Driver& driver) {
    const bool is_aligned = alignment == 0 || std::has_single_bit(alignment);
    if (ptr == nullptr || !is_whole(size) || !is_aligned || addr % page_size != 0 || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto address = driver.virtual_memory().reserve(size, alignment, addr);
    if (!address) return CUDA_ERROR_OUT_OF_MEMORY;
    *ptr = *address;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return enter([&](Driver& driver) {
    return driver.virtual_memory().release(ptr, size) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (handle == nullptr || prop == nullptr || !is_whole(size) || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    PhysicalTraits traits;
    const CUresult found = find_traits(driver, *prop, traits);
    return found != CUDA_SUCCESS ? found : create(driver, handle, size, traits);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter([&](Driver& driver) {
    return driver.virtual_memory().drop(handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const auto found = driver.virtual_memory().retain(reinterpret_cast<std::uintptr_t>(addr));
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    *handle = *found;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  return enter([&](Driver&) {
    if (granularity == nullptr || prop == nullptr ||
        (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
         option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED))
      return CUDA_ERROR_INVALID_VALUE;
    *granularity = granularity_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  return enter([&](Driver& driver) {
    const auto memory = driver.virtual_memory().find(handle);
    if (prop == nullptr || !memory) return CUDA_ERROR_INVALID_VALUE;
    *prop = properties_of(memory->traits);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return enter([&](Driver& driver) {
    const auto memory = driver.virtual_memory().find(handle);
    if (!memory || ptr % granularity_bytes != 0 || size == 0 || flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    if (size != memory->bytes || offset != 0) return CUDA_ERROR_NOT_SUPPORTED;
    return driver.virtual_memory().map(ptr, handle);
  });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return enter([&](Driver& driver) {
    const auto place = range_of(ptr, size);
    if (!place) return CUDA_ERROR_INVALID_VALUE;
    // Work that was launched earlier may still access the memory.
    if (driver.virtual_memory().takes_away(*place, {})) driver.wait_for_all_work();
    return driver.virtual_memory().unmap(*place);
  });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  return enter([&](Driver& driver) {
    const auto place = range_of(ptr, size);
    if (!place || desc == nullptr || count == 0) return CUDA_ERROR_INVALID_VALUE;
    return set_access(driver, *place, {desc, count});
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    if (flags == nullptr || location == nullptr) return CUDA_ERROR_INVALID_VALUE;
    VirtualMemory::Grant asked;
    const CUresult found = find_grantee(driver, *location, asked);
    if (found != CUDA_SUCCESS) return found;
    const auto mapped = driver.virtual_memory().mapped_at(ptr);
    if (!mapped) *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!mapped ||
        (asked.is_for_nodes && mapped->memory.traits.location.kind != Location::Kind::host_node))
      return CUDA_ERROR_INVALID_VALUE;
    *flags = to_flags(mapped->access_of(asked.processor));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (shareableHandle == nullptr || handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        flags != 0)
      return CUDA_ERROR_INVALID_VALUE;
    const auto memory = driver.virtual_memory().find(handle);
    if (!memory || !memory->traits.is_exportable) return CUDA_ERROR_INVALID_VALUE;
    *static_cast<int*>(shareableHandle) = duplicate_fd(memory->file->get()).release();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult known = check_imported_handle_type(shHandleType);
    if (known != CUDA_SUCCESS) return known;
    auto memory = import_physical_memory(
        driver, static_cast<int>(reinterpret_cast<std::uintptr_t>(osHandle)));
    if (!memory || !exists(driver.runtime(), memory->traits.location))
      return CUDA_ERROR_INVALID_VALUE;
    *handle = driver.virtual_memory().add(std::move(*memory));
    return CUDA_SUCCESS;
  });
}
