// The C functions of virtual memory management by the program.
#include <algorithm>
#include <bit>
#include <span>
#include <vector>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/failures/shareable_handles.h"
#include "objects/ranges.h"

using namespace wherry::impl;

namespace {

constexpr std::size_t granularity_bytes = block_size;

bool is_whole(std::size_t bytes) {
  return bytes != 0 && bytes % granularity_bytes == 0;
}
CUresult refuse_part(const char* argument, std::uint64_t value) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is {:#x}; pass a multiple of {} that is not 0",
              argument, value, granularity_bytes);
}

// Checks that the range consists of whole steps of the granularity.
CUresult find_range(CUdeviceptr start, std::size_t bytes, AddressRange& range) {
  if (start % granularity_bytes != 0) return refuse_part("ptr", start);
  if (!is_whole(bytes)) return refuse_part("size", bytes);
  if (start + bytes < start) return refuse_extent(start, bytes);
  range = {start, start + bytes};
  return CUDA_SUCCESS;
}

CUresult refuse_unmapped(CUdeviceptr address) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "no memory is mapped at {:#x}; pass an address at which cuMemMap has mapped some",
              address);
}

// ---- properties

// Checks the handle types with which the memory can be exported.
CUresult check_wanted_handle_types(CUmemAllocationHandleType types) {
  constexpr const char* field = "requestedHandleTypes";
  switch (static_cast<int>(types)) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return refuse_handle_types(CUDA_ERROR_NOT_PERMITTED, field, types);
    default:
      return refuse_handle_types(CUDA_ERROR_INVALID_VALUE, field, types);
  }
}

CUresult find_location(Driver& driver, const CUmemLocation& named, Location& location) {
  const auto found = to_location(named);
  if (found && found->kind == Location::Kind::callers_node)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the location's type is CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT; name a node with "
                "_HOST_NUMA");
  if (found && exists(driver.runtime(), *found)) {
    location = *found;
    return CUDA_SUCCESS;
  }
  const bool is_device = found && found->kind == Location::Kind::device;
  return refuse_location(driver.runtime(), named,
                         is_device ? CUDA_ERROR_INVALID_DEVICE : CUDA_ERROR_INVALID_VALUE);
}

CUresult find_traits(Driver& driver, const CUmemAllocationProp& wanted, PhysicalTraits& traits) {
  if (wanted.type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return fail(CUDA_ERROR_INVALID_VALUE, "type of prop is {}; pass CU_MEM_ALLOCATION_TYPE_PINNED",
                static_cast<int>(wanted.type));
  const auto& flags = wanted.allocFlags;
  if (flags.compressionType > CU_MEM_ALLOCATION_COMP_GENERIC || flags.gpuDirectRDMACapable > 1 ||
      flags.usage != 0 || wanted.win32HandleMetaData != nullptr ||
      !std::ranges::all_of(flags.reserved, [](auto byte) { return byte == 0; }))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "win32HandleMetaData or allocFlags of prop has an unknown value; set the struct to "
                "zeros before its fields");
  CUresult result = check_wanted_handle_types(wanted.requestedHandleTypes);
  if (result == CUDA_SUCCESS) result = find_location(driver, wanted.location, traits.location);
  if (result != CUDA_SUCCESS) return result;
  traits.is_exportable = wanted.requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  traits.is_for_third_parties = flags.gpuDirectRDMACapable != 0;
  const bool is_of_host = traits.location.kind == Location::Kind::host;
  if (is_of_host && traits.is_exportable)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "memory of CU_MEM_LOCATION_TYPE_HOST cannot be exported; name a node with "
                "_HOST_NUMA, or pass CU_MEM_HANDLE_TYPE_NONE");
  return CUDA_SUCCESS;
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
      if (driver.device(location.id) == nullptr)
        return refuse_device(driver.runtime(), location.id);
      grantee.processor = Processor::device(location.id);
      return CUDA_SUCCESS;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      grantee.processor = Processor::host();
      grantee.is_for_nodes = location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA;
      return CUDA_SUCCESS;
    default:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the location's type is {}; pass CU_MEM_LOCATION_TYPE_DEVICE, _HOST or "
                  "_HOST_NUMA",
                  static_cast<int>(location.type));
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
    // NVIDIA's driver returns this error here also for a device that does not exist, but not in the
    // functions that query access.
    if (found != CUDA_SUCCESS) return fail_instead(found, CUDA_ERROR_INVALID_VALUE);
    if (!access)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "flags of desc[{}] is {}; pass CU_MEM_ACCESS_FLAGS_PROT_NONE, _READ or "
                  "_READWRITE",
                  &each - wanted.data(), static_cast<int>(each.flags));
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
  if (!memory)
    return traits.location.kind == Location::Kind::device
               ? refuse_bytes(driver.runtime(), traits.location.id, bytes)
               : refuse_host_bytes(driver.runtime(), bytes);
  *handle = driver.virtual_memory().add(std::move(*memory));
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAddressReserve(CUdeviceptr* ptr, size_t size, size_t alignment, CUdeviceptr addr,
                             unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (ptr == nullptr) return refuse_null("ptr");
    if (!is_whole(size)) return refuse_part("size", size);
    if (alignment != 0 && !std::has_single_bit(alignment))
      return fail(CUDA_ERROR_INVALID_VALUE, "alignment is {}; pass 0 or a power of two", alignment);
    if (addr % page_size != 0)
      return fail(CUDA_ERROR_INVALID_VALUE, "addr is {:#x}; pass 0 or a multiple of {}", addr,
                  page_size);
    if (flags != 0) return refuse_flags(flags);
    const auto address = driver.virtual_memory().reserve(size, alignment, addr);
    if (!address) return refuse_addresses(size);
    *ptr = *address;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemAddressFree(CUdeviceptr ptr, size_t size) {
  return enter([&](Driver& driver) {
    if (driver.virtual_memory().release(ptr, size)) return CUDA_SUCCESS;
    const auto reserved = driver.virtual_memory().reserved_around(ptr);
    if (!reserved)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "no addresses are reserved at {:#x}; were they freed before?", ptr);
    if (reserved->start != ptr || reserved->size() != size)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the range {:#x}+{} is not the whole reservation {:#x}+{}; pass that", ptr, size,
                  reserved->start, reserved->size());
    return refuse_mapped(ptr, size);
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return refuse_null("handle");
    if (prop == nullptr) return refuse_null("prop");
    if (!is_whole(size)) return refuse_part("size", size);
    if (flags != 0) return refuse_flags(flags);
    PhysicalTraits traits;
    const CUresult found = find_traits(driver, *prop, traits);
    return found != CUDA_SUCCESS ? found : create(driver, handle, size, traits);
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter([&](Driver& driver) {
    return driver.virtual_memory().drop(handle) ? CUDA_SUCCESS : refuse_handle(handle);
  });
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* addr) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return refuse_null("handle");
    const auto address = reinterpret_cast<std::uintptr_t>(addr);
    const auto found = driver.virtual_memory().retain(address);
    if (!found) return refuse_unmapped(address);
    *handle = *found;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp* prop,
                                       CUmemAllocationGranularity_flags option) {
  return enter([&](Driver&) {
    if (granularity == nullptr) return refuse_null("granularity");
    if (prop == nullptr) return refuse_null("prop");
    if (option != CU_MEM_ALLOC_GRANULARITY_MINIMUM &&
        option != CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
      return refuse_value("option", static_cast<int>(option), "CUmemAllocationGranularity_flags");
    *granularity = granularity_bytes;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* prop,
                                                CUmemGenericAllocationHandle handle) {
  return enter([&](Driver& driver) {
    const auto memory = driver.virtual_memory().find(handle);
    if (prop == nullptr) return refuse_null("prop");
    if (!memory) return refuse_handle(handle);
    *prop = properties_of(memory->traits);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemMap(CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  return enter([&](Driver& driver) {
    const auto memory = driver.virtual_memory().find(handle);
    if (!memory) return refuse_handle(handle);
    if (ptr % granularity_bytes != 0) return refuse_part("ptr", ptr);
    if (size == 0) return refuse_zero("size");
    if (flags != 0) return refuse_flags(flags);
    if (size != memory->bytes || offset != 0)
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "size is {} and offset {}, and memory is mapped only as a whole; pass size {} "
                  "and offset 0",
                  size, offset, memory->bytes);
    return driver.virtual_memory().map(ptr, handle);
  });
}

CUresult cuMemUnmap(CUdeviceptr ptr, size_t size) {
  return enter([&](Driver& driver) {
    AddressRange place{};
    const CUresult found = find_range(ptr, size, place);
    if (found != CUDA_SUCCESS) return found;
    // Work that was launched earlier may still access the memory.
    if (driver.virtual_memory().takes_away(place, {})) driver.wait_for_all_work();
    return driver.virtual_memory().unmap(place);
  });
}

CUresult cuMemSetAccess(CUdeviceptr ptr, size_t size, const CUmemAccessDesc* desc, size_t count) {
  return enter([&](Driver& driver) {
    AddressRange place{};
    const CUresult found = find_range(ptr, size, place);
    if (found != CUDA_SUCCESS) return found;
    if (desc == nullptr) return refuse_null("desc");
    if (count == 0) return refuse_zero("count");
    return set_access(driver, place, {desc, count});
  });
}

CUresult cuMemGetAccess(unsigned long long* flags, const CUmemLocation* location, CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    if (flags == nullptr) return refuse_null("flags");
    if (location == nullptr) return refuse_null("location");
    VirtualMemory::Grant asked;
    const CUresult found = find_grantee(driver, *location, asked);
    if (found != CUDA_SUCCESS) return found;
    const auto mapped = driver.virtual_memory().mapped_at(ptr);
    if (!mapped) {
      *flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
      return refuse_unmapped(ptr);
    }
    if (asked.is_for_nodes && mapped->memory.traits.location.kind != Location::Kind::host_node)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the location is a node, and the memory at {:#x} was not created on one; pass "
                  "CU_MEM_LOCATION_TYPE_HOST",
                  ptr);
    *flags = to_flags(mapped->access_of(asked.processor));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemExportToShareableHandle(void* shareableHandle, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType handleType,
                                      unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (shareableHandle == nullptr) return refuse_null("shareableHandle");
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return refuse_handle_type(CUDA_ERROR_INVALID_VALUE, handleType);
    if (flags != 0) return refuse_flags(flags);
    const auto memory = driver.virtual_memory().find(handle);
    if (!memory) return refuse_handle(handle);
    if (!memory->traits.is_exportable)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the memory is for this process only; create it with the requestedHandleTypes "
                  "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
    *static_cast<int*>(shareableHandle) = duplicate_fd(memory->file->get()).release();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* osHandle,
                                        CUmemAllocationHandleType shHandleType) {
  return enter([&](Driver& driver) {
    if (handle == nullptr) return refuse_null("handle");
    const CUresult known = check_imported_handle_type(shHandleType);
    if (known != CUDA_SUCCESS) return known;
    const auto descriptor = static_cast<int>(reinterpret_cast<std::uintptr_t>(osHandle));
    auto memory = import_physical_memory(driver, descriptor);
    if (!memory) return refuse_descriptor(descriptor, "cuMemExportToShareableHandle");
    if (!exists(driver.runtime(), memory->traits.location))
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the memory is on a device or node that this process does not see; see "
                  "CUDA_VISIBLE_DEVICES and WHERRY_DEVICES");
    *handle = driver.virtual_memory().add(std::move(*memory));
    return CUDA_SUCCESS;
  });
}
