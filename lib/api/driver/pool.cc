// The C functions of memory pools, and of stream-ordered allocation.
#include <algorithm>
#include <functional>
#include <limits>
#include <span>

#include "api/entry.h"

using namespace wherry::impl;

namespace {

// Runs body(driver, pool) if the pool exists.
template <typename Body>
CUresult enter_pool(CUmemoryPool handle, const Body& body,
                    const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto pool = driver.pools().find(handle);
    return pool ? body(driver, pool) : CUDA_ERROR_INVALID_VALUE;
  });
}

// Returns CUDA_ERROR_INVALID_VALUE if the location is not a device.
CUresult find_device(Driver& driver, const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  return driver.device(location.id) == nullptr ? CUDA_ERROR_INVALID_DEVICE : CUDA_SUCCESS;
}

CUresult check_properties(Driver& driver, const CUmemPoolProps& wanted) {
  const bool is_plain = wanted.win32SecurityAttributes == nullptr && wanted.usage == 0 &&
                        std::ranges::all_of(wanted.reserved, [](auto byte) { return byte == 0; });
  if (!is_plain) return CUDA_ERROR_INVALID_VALUE;
  if (wanted.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_NOT_SUPPORTED;
  if (wanted.allocType != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  if (wanted.location.type == CU_MEM_LOCATION_TYPE_HOST ||
      wanted.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return CUDA_ERROR_NOT_SUPPORTED;
  const CUresult found = find_device(driver, wanted.location);
  if (found != CUDA_SUCCESS) return found;
  switch (wanted.handleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return CUDA_ERROR_NOT_SUPPORTED;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// choose(pools) returns the pool of the device; called only if the device exists.
template <typename Choose>
CUresult tell_pool(CUmemoryPool* answer, CUdevice device, const Choose& choose,
                   const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (answer == nullptr) return CUDA_ERROR_INVALID_VALUE;
    if (driver.device(device) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const std::shared_ptr<MemoryPool> pool = choose(driver.pools());
    if (!pool) return CUDA_ERROR_OUT_OF_MEMORY;
    *answer = pool->handle();
    return CUDA_SUCCESS;
  });
}

// Allocates from the pool that `choose` returns for the stream's device; null: there is none.
template <typename Choose>
CUresult allocate(CUdeviceptr* dptr, std::size_t bytes, CUstream argument, const Choose& choose,
                  const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (dptr == nullptr) return CUDA_ERROR_INVALID_VALUE;
    *dptr = 0;
    StreamHandle stream;
    const CUresult found = find_working_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    const std::shared_ptr<MemoryPool> pool = choose(driver.pools(), stream.context->device.ordinal);
    if (!pool || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
    const CUresult result = pool->allocate(bytes, stream, *dptr);
    if (result != CUDA_ERROR_OUT_OF_MEMORY || !driver.give_back(*driver.device(pool->device())))
      return result;
    return pool->allocate(bytes, stream, *dptr);
  });
}

CUresult allocate_from_current(CUdeviceptr* dptr, std::size_t bytes, CUstream stream,
                               const char* call = __builtin_FUNCTION()) {
  return allocate(
      dptr, bytes, stream, [](MemoryPools& pools, int device) { return pools.current_of(device); },
      call);
}

CUresult allocate_from(CUmemoryPool pool, CUdeviceptr* dptr, std::size_t bytes, CUstream stream,
                       const char* call = __builtin_FUNCTION()) {
  return allocate(
      dptr, bytes, stream, [pool](MemoryPools& pools, int) { return pools.find(pool); }, call);
}

// Calls body() when the stream's earlier work is over.
void call_in_order(Driver& driver, const StreamHandle& stream, const std::function<void()>& body) {
  const WorkStatus status =
      stream.context->device.engine.add_callback(stream.stream, [body](WorkStatus) { body(); });
  if (status == WorkStatus::ok) return;
  // The context has failed meanwhile: its own work does not run any more, but other contexts' work
  // may use the memory.
  driver.wait_for_all_work();
  body();
}

CUresult free_imported_in_order(Driver& driver, std::uintptr_t address,
                                const StreamHandle& stream) {
  const auto piece = driver.imported().take_pooled(address);
  if (!piece) return CUDA_ERROR_INVALID_VALUE;
  call_in_order(driver, stream, [&driver, piece = *piece] { driver.imported().end(piece); });
  return CUDA_SUCCESS;
}

CUresult free_in_order(CUdeviceptr address, CUstream argument,
                       const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    StreamHandle stream;
    const CUresult found = find_working_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    const auto record = driver.memory().take(address, [](const MemoryRecord& known) {
      return !known.variable &&
             (known.kind == MemoryKind::pooled || known.kind == MemoryKind::device);
    });
    if (!record) return free_imported_in_order(driver, address, stream);
    if (record->kind == MemoryKind::device) {
      call_in_order(driver, stream, [&driver, record = *record] { driver.offers().free(record); });
      return CUDA_SUCCESS;
    }
    // Before the place can be used for another allocation.
    driver.offers().withdraw(*record);
    if (driver.pools().free_in_order(*record, stream)) return CUDA_SUCCESS;
    // The context has failed meanwhile: its own work does not run any more, but other contexts'
    // work may use the memory.
    driver.wait_for_all_work();
    driver.pools().free(*record);
    return CUDA_SUCCESS;
  });
}

// Changes which devices can access the pool of `own_device`, by calling change(device, accessible)
// for each.
template <typename Change>
CUresult set_access(Driver& driver, int own_device, std::span<const CUmemAccessDesc> wanted,
                    const Change& change) {
  for (const CUmemAccessDesc& access : wanted) {
    const CUresult found = find_device(driver, access.location);
    if (found != CUDA_SUCCESS) return found;
    const bool none = access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    if (!none && access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      return CUDA_ERROR_INVALID_VALUE;
    if (none && access.location.id == own_device) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const CUmemAccessDesc& access : wanted) {
    const bool none = access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
    // Work that was launched earlier may still access the memory.
    if (none) driver.device(access.location.id)->engine.wait_for_device();
    if (const CUresult changed = change(access.location.id, !none); changed != CUDA_SUCCESS)
      return changed;
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAllocAsync(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return allocate_from_current(dptr, bytesize, hStream);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUstream hStream) {
  return allocate_from_current(dptr, bytesize, per_thread(hStream));
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream) {
  return allocate_from(pool, dptr, bytesize, hStream);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                      CUstream hStream) {
  return allocate_from(pool, dptr, bytesize, per_thread(hStream));
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return free_in_order(dptr, hStream);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr dptr, CUstream hStream) {
  return free_in_order(dptr, per_thread(hStream));
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return tell_pool(pool_out, dev, [dev](MemoryPools& pools) { return pools.default_of(dev); });
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return tell_pool(pool, dev, [dev](MemoryPools& pools) { return pools.current_of(dev); });
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return enter([&](Driver& driver) {
    if (driver.device(dev) == nullptr) return CUDA_ERROR_INVALID_DEVICE;
    const auto found = driver.pools().find(pool);
    if (!found || found->device() != dev) return CUDA_ERROR_INVALID_VALUE;
    driver.pools().set_current(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  return enter([&](Driver& driver) {
    if (pool == nullptr || poolProps == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const CUresult checked = check_properties(driver, *poolProps);
    if (checked != CUDA_SUCCESS) return checked;
    const std::size_t whole = round_up(poolProps->maxSize, block_size);
    const MemoryPool::Limits limits{
        whole == 0 ? std::numeric_limits<std::size_t>::max() : whole,
        poolProps->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    const auto made = driver.pools().create(poolProps->location.id, limits);
    if (!made) return CUDA_ERROR_OUT_OF_MEMORY;
    *pool = made->handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return enter([&](Driver& driver) {
    if (driver.imported_memory_pools().take(pool)) return CUDA_SUCCESS;
    if (!driver.pools().destroy(pool)) return CUDA_ERROR_INVALID_VALUE;
    driver.offers().withdraw(pool);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  return enter_pool(pool, [&](Driver&, const auto& found) {
    found->trim(minBytesToKeep);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return enter_pool(pool, [&](Driver& driver, const auto& found) {
    if (value == nullptr) return CUDA_ERROR_INVALID_VALUE;
    driver.pools().note_excess();  // the new threshold may be lower
    return found->set_attribute(attr, value);
  });
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return enter_pool(pool, [&](Driver&, const auto& found) {
    return value == nullptr ? CUDA_ERROR_INVALID_VALUE : found->get_attribute(attr, value);
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  return enter([&](Driver& driver) {
    const auto imported = driver.imported_memory_pools().find(pool);
    const auto own = driver.pools().find(pool);
    if ((!imported && !own) || map == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const int device = imported ? imported->device : own->device();
    return set_access(driver, device, {map, count}, [&](int accessor, bool accessible) {
      if (imported) return driver.imported().set_access(*imported, accessor, accessible);
      own->set_access(accessor, accessible);
      return CUDA_SUCCESS;
    });
  });
}
CUresult cuMemPoolGetAccess(CUmemAccess_flags* flags, CUmemoryPool memPool,
                            CUmemLocation* location) {
  return enter([&](Driver& driver) {
    const auto imported = driver.imported_memory_pools().find(memPool);
    const auto own = driver.pools().find(memPool);
    if ((!imported && !own) || flags == nullptr || location == nullptr)
      return CUDA_ERROR_INVALID_VALUE;
    const CUresult known = find_device(driver, *location);
    if (known != CUDA_SUCCESS) return known;
    const bool accessible = imported ? driver.imported().is_accessible(*imported, location->id)
                                     : own->is_accessible(location->id);
    *flags = accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}
