#include "api/bad_arguments.h"

#include <string_view>

#include "runtime/last_failure.h"
#include "runtime/ranges.h"

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

CUresult refuse_null(const char* argument) {
  return fail(CUDA_ERROR_INVALID_VALUE, "{} is NULL; pass a valid pointer", argument);
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

CUresult refuse_flags(unsigned long long flags) {
  return fail(CUDA_ERROR_INVALID_VALUE, "flags is {:#x}; pass 0", flags);
}

CUresult refuse_range(Runtime& runtime, CUdeviceptr first, std::size_t count) {
  constexpr CUresult code = CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return fail(code, "the range at {:#x} has 0 bytes; pass at least 1", first);
  if (first + count < first)
    return fail(code, "the range {:#x}+{} reaches past the last address; check its size", first,
                count);
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
    return fail(code, "{:#x} is a managed variable, which is never freed", address);
  if (std::string_view(freeing) != freeing_function(record->kind))
    return fail(code, "{:#x} is {}; use {}", address, name_of(record->kind),
                freeing_function(record->kind));
  return fail(code, "{:#x} lies inside the allocation {:#x}+{}; pass the allocation's start",
              address, record->start_of_range(address), record->bytes);
}

CUresult refuse_device(const Runtime& runtime, int ordinal, bool or_host) {
  constexpr CUresult code = CUDA_ERROR_INVALID_DEVICE;
  const int last = runtime.device_count() - 1;
  return or_host
             ? fail(code, "there is no device {}; pass 0 to {}, or CU_DEVICE_CPU", ordinal, last)
             : fail(code, "there is no device {}; pass 0 to {}", ordinal, last);
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
