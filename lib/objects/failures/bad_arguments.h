// Reasons for failures that need the runtime or the driver to be found: what is at an address,
// which devices and pools exist. (For the others see refusals.h.) Each function notes the reason
// (objects/failures/last_failure.h) and returns the code. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "objects/failures/refusals.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class Driver;

// CUDA_ERROR_INVALID_VALUE: the field `size` of a struct is too small.
CUresult refuse_size(std::size_t size);

// CUDA_ERROR_INVALID_VALUE, for a range that is not inside one managed allocation.
CUresult refuse_range(Runtime& runtime, CUdeviceptr first, std::size_t count);

// CUDA_ERROR_INVALID_VALUE, for an address that is not the start of memory that `freeing` frees.
CUresult refuse_start(Runtime& runtime, CUdeviceptr address, const char* freeing);

// CUDA_ERROR_INVALID_DEVICE: no such device. `or_host`: CU_DEVICE_CPU would be valid, too.
CUresult refuse_device(const Runtime& runtime, int ordinal, bool or_host = false);
// Calls refuse_device() for the first device that does not exist; CUDA_SUCCESS if both do.
CUresult check_devices(Driver& driver, int one, int other);
// Refuses a location whose type is invalid, or whose device or node does not exist. Returns `code`.
CUresult refuse_location(const Runtime& runtime, CUmemLocation named, CUresult code);
// CUDA_ERROR_INVALID_DEVICE: the device was configured without concurrent access.
CUresult refuse_exclusive(int ordinal);
// CUDA_ERROR_INVALID_DEVICE: the device cannot access memory that the library did not allocate.
CUresult refuse_pageable(int ordinal);

// CUDA_ERROR_INVALID_VALUE: there is no such pool, or it belongs to another process, whose pools
// the call does not accept.
CUresult refuse_pool(Driver& driver, CUmemoryPool handle);

// CUDA_ERROR_OUT_OF_MEMORY: the pages do not fit into the device's pool.
CUresult refuse_bytes(const Runtime& runtime, int device, std::size_t bytes);
// CUDA_ERROR_OUT_OF_MEMORY: neither the pools nor the arena have room for so many bytes of managed
// memory; or the host's pool has none for so many bytes of host memory.
CUresult refuse_managed_bytes(Runtime& runtime, std::size_t bytes);
CUresult refuse_host_bytes(const Runtime& runtime, std::size_t bytes);
// Refuses an old variant of a function, whose addresses have 32 bits. Returns `code`.
CUresult refuse_old_variant(CUresult code);

// CUDA_ERROR_NOT_FOUND: the object exports no kernel of this name.
CUresult refuse_kernel(const std::string& object, const char* name);

// Returns for example "managed memory", or "device memory (cuMemAlloc)".
const char* name_of(MemoryKind kind);

}  // namespace wherry::impl
