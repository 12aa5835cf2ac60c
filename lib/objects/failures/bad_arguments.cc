#include "objects/failures/bad_arguments.h"

#include <string_view>

#include "base/page.h"
#include "objects/driver.h"
#include "objects/failures/last_failure.h"
#include "objects/ranges.h"

namespace wherry::impl {
namespace {

// The function that frees memory of this kind.
const char* freeing_function(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::managed:
    case MemoryKind::device:
    case MemoryKind::pooled:
      return "cuMemFree";
    case MemoryKind::host:
      return "cuMemFreeHost";
    case MemoryKind::registered:
      return "cuMemHostUnregister";
    case MemoryKind::mapped:
      return "cuMemUnmap";
    case MemoryKind::imported:
      return "cuIpcCloseMemHandle";
  }
  return "cuMemFree";
}

}  // namespace

const char* name_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::managed:
      return "managed memory";
    case MemoryKind::device:
      return "device memory (cuMemAlloc)";
    case MemoryKind::pooled:
      return "memory of a pool (cuMemAllocAsync)";
    case MemoryKind::host:
      return "host memory (cuMemHostAlloc)";
    case MemoryKind::registered:
      return "registered host memory (cuMemHostRegister)";
    case MemoryKind::mapped:
      return "mapped memory (cuMemMap)";
    case MemoryKind::imported:
      return "memory of another process (cuIpcOpenMemHandle)";
  }
  return "memory";
}

CUresult refuse_kernel(const std::string& object, const char* name) {
  return fail(CUDA_ERROR_NOT_FOUND,
              "{} exports no function {}; declare the kernel extern \"C\", not static", object,
              name);
}

CUresult refuse_size(std::size_t size) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the struct's field size is {}; set it to sizeof the struct before the call", size);
}

CUresult refuse_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  constexpr CUresult code = CUDA_ERROR_INVALID_VALUE;
  if (count == 0 || first + count < first) return refuse_extent(first, count);
  const auto record = runtime.heap().find_record(first);
  if (!record)
    return fail(code,
                "no managed memory is at {:#x}; allocate it with cuMemAllocManaged (was it freed?)",
                first);
  if (record->kind != MemoryKind::managed)
    return fail(code, "{:#x} is {}, not managed memory; allocate it with cuMemAllocManaged", first,
                name_of(record->kind));
  const std::uint64_t end = record->base + record->bytes;
  if (first + count > end)
    return fail(code,
                "the range {:#x}+{} ends {} bytes after its allocation {:#x}+{}; stay inside one "
                "allocation",
                first, count, first + count - end, record->base, record->bytes);
  return fail(code, "the range {:#x}+{} was freed during the call; free it later", first, count);
}

CUresult refuse_start(Runtime& runtime, CUdeviceptr address, const char* freeing) {
  constexpr CUresult code = CUDA_ERROR_INVALID_VALUE;
  const auto record = runtime.heap().find_record(address);
  if (!record)
    return fail(code, "no memory of the library is at {:#x}; was it freed before?", address);
  if (record->variable)
    return fail(code, "{:#x} is a managed variable, which is never freed; leave it", address);
  if (std::string_view(freeing) != freeing_function(record->kind))
    return fail(code, "{:#x} is {}; use {}", address, name_of(record->kind),
                freeing_function(record->kind));
  return refuse_inside(address, record->start_of_range(address), record->bytes);
}

CUresult refuse_device(const Runtime& runtime, int ordinal, bool or_host) {
  constexpr CUresult code = CUDA_ERROR_INVALID_DEVICE;
  const int last = runtime.device_count() - 1;
  return or_host
             ? fail(code, "there is no device {}; pass 0 to {}, or CU_DEVICE_CPU", ordinal, last)
             : fail(code, "there is no device {}; pass 0 to {}", ordinal, last);
}

CUresult check_devices(Driver& driver, int one, int other) {
  for (const int each : {one, other})
    if (driver.device(each) == nullptr) return refuse_device(driver.runtime(), each);
  return CUDA_SUCCESS;
}

CUresult refuse_location(const Runtime& runtime, CUmemLocation named, CUresult code) {
  const int type = static_cast<int>(named.type);
  if (!to_location(named))
    return fail(code,
                "the location's type is {}; pass CU_MEM_LOCATION_TYPE_DEVICE, _HOST, _HOST_NUMA or "
                "_HOST_NUMA_CURRENT",
                type);
  if (type == CU_MEM_LOCATION_TYPE_DEVICE)
    return fail(code, "the location is device {}, which does not exist; pass 0 to {}", named.id,
                runtime.device_count() - 1);
  if (!exists(runtime, *to_location(named)))
    return fail(code, "the location is node {}, which is none of the host's; see WHERRY_HOST_NODES",
                named.id);
  return fail(code, "the location is a node, which this advice does not take; pass a processor");
}

CUresult refuse_pool(Driver& driver, CUmemoryPool handle) {
  if (!driver.imported_memory_pools().find(handle)) return refuse_handle(handle);
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the memory pool is another process's, which alone can do this; pass one of "
              "cuMemPoolCreate");
}

CUresult refuse_bytes(const Runtime& runtime, int device, std::size_t bytes) {
  return fail(CUDA_ERROR_OUT_OF_MEMORY,
              "device {} has no room for {} bytes; free some of its memory, or raise its capacity "
              "in WHERRY_DEVICES ({} bytes now)",
              device, bytes, runtime.device_config(device).capacity);
}

CUresult refuse_managed_bytes(Runtime& runtime, std::size_t bytes) {
  const std::uint64_t arena = runtime.layout().bytes();
  const std::uint64_t pools = runtime.budget().managed_pages_max() * page_size;
  if (runtime.topology().host_capacity != 0 && pools < arena)
    return fail(CUDA_ERROR_OUT_OF_MEMORY,
                "the pools have no room for {} bytes of managed memory beside what they hold ({} "
                "bytes at most); free some, or {}",
                bytes, pools, more_for_host(runtime.topology()));
  return fail(CUDA_ERROR_OUT_OF_MEMORY,
              "{} bytes of managed memory find no room; free some, or raise WHERRY_ARENA ({} bytes "
              "of addresses now)",
              bytes, arena);
}

CUresult refuse_host_bytes(const Runtime& runtime, std::size_t bytes) {
  if (runtime.topology().host_capacity == 0)
    return fail(CUDA_ERROR_OUT_OF_MEMORY, "the machine has no room for {} bytes of host memory",
                bytes);
  return fail(CUDA_ERROR_OUT_OF_MEMORY,
              "the host's pool has no room for {} bytes of host memory; free some, or {}", bytes,
              more_for_host(runtime.topology()));
}

CUresult refuse_old_variant(CUresult code) {
  return fail(code,
              "no memory has an address that fits into the 32 bits of this old variant; compile "
              "the program with a present cuda.h, which calls the variant with 64 bits");
}

CUresult refuse_exclusive(int ordinal) {
  return fail(CUDA_ERROR_INVALID_DEVICE,
              "device {} cannot access managed memory while the host does (concurrent=0 in "
              "WHERRY_DEVICES); name another device or the host",
              ordinal);
}

CUresult refuse_pageable(int ordinal) {
  return fail(CUDA_ERROR_INVALID_DEVICE,
              "device {} cannot access memory that the library did not allocate; use "
              "cuMemAllocManaged, or a coherent device (kind=coherent in WHERRY_DEVICES)",
              ordinal);
}

}  // namespace wherry::impl
