// The C functions of memory pools, and of stream-ordered allocation.
#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/failures/shareable_handles.h"

using namespace wherry::impl;

namespace {

// Runs body(driver, pool) if the pool exists.
template <typename Body>
CUresult enter_pool(CUmemoryPool handle, const Body& body,
                    const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const auto pool = driver.pools().find(handle);
    return pool ? body(driver, pool) : refuse_pool(driver, handle);
  });
}

// Returns CUDA_ERROR_INVALID_VALUE if the location is not a device.
CUresult find_device(Driver& driver, const CUmemLocation& location) {
  if (location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the location's type is {}; pass CU_MEM_LOCATION_TYPE_DEVICE",
                static_cast<int>(location.type));
  return driver.device(location.id) == nullptr ? refuse_device(driver.runtime(), location.id)
                                               : CUDA_SUCCESS;
}

CUresult refuse_more_pools(CUresult code) {
  return fail(code, "there are as many memory pools as there can be; destroy one of them first");
}

CUresult check_properties(Driver& driver, const CUmemPoolProps& wanted) {
  const bool is_plain = wanted.win32SecurityAttributes == nullptr && wanted.usage == 0 &&
                        std::ranges::all_of(wanted.reserved, [](auto byte) { return byte == 0; });
  if (!is_plain)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "win32SecurityAttributes, usage or reserved of poolProps is not 0; set the struct "
                "to zeros before its fields");
  if (wanted.allocType == CU_MEM_ALLOCATION_TYPE_MANAGED)
    return fail(CUDA_ERROR_NOT_SUPPORTED,
                "there are no pools of managed memory; use cuMemAllocManaged, or pass the "
                "allocType CU_MEM_ALLOCATION_TYPE_PINNED");
  if (wanted.allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return fail(CUDA_ERROR_INVALID_VALUE, "allocType is {}; pass CU_MEM_ALLOCATION_TYPE_PINNED",
                static_cast<int>(wanted.allocType));
  if (wanted.location.type == CU_MEM_LOCATION_TYPE_HOST ||
      wanted.location.type == CU_MEM_LOCATION_TYPE_HOST_NUMA)
    return fail(CUDA_ERROR_NOT_SUPPORTED,
                "there are no pools of the host's memory; use cuMemHostAlloc, or pass a device as "
                "the location");
  const CUresult found = find_device(driver, wanted.location);
  if (found != CUDA_SUCCESS) return found;
  switch (wanted.handleTypes) {
    case CU_MEM_HANDLE_TYPE_NONE:
    case CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR:
      return CUDA_SUCCESS;
    case CU_MEM_HANDLE_TYPE_FABRIC:
      return refuse_handle_types(CUDA_ERROR_NOT_SUPPORTED, "handleTypes", wanted.handleTypes);
    default:
      return refuse_handle_types(CUDA_ERROR_INVALID_VALUE, "handleTypes", wanted.handleTypes);
  }
}

// Stores choose(pools), a pool of the device, in `answer`. Refuses a device that does not exist.
template <typename Choose>
CUresult tell_pool(CUmemoryPool* answer, CUdevice device, const Choose& choose,
                   const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (answer == nullptr) return refuse_null("pool");
    if (driver.device(device) == nullptr) return refuse_device(driver.runtime(), device);
    const std::shared_ptr<MemoryPool> pool = choose(driver.pools());
    if (!pool) return refuse_more_pools(CUDA_ERROR_OUT_OF_MEMORY);
    *answer = pool->handle();
    return CUDA_SUCCESS;
  });
}

CUresult refuse_size(Driver& driver, const MemoryPool& pool, std::size_t bytes) {
  if (pool.most_bytes() == std::numeric_limits<std::size_t>::max())
    return refuse_bytes(driver.runtime(), pool.device(), bytes);
  return fail(CUDA_ERROR_OUT_OF_MEMORY,
              "the pool, which holds at most {} bytes, or its device {} has no room for {} bytes; "
              "free some of its memory, or create a pool with a larger maxSize",
              pool.most_bytes(), pool.device(), bytes);
}

// Allocates from the pool `from`, or, without one, from the current pool of the stream's device.
CUresult allocate(CUdeviceptr* dptr, std::size_t bytes, CUstream argument,
                  std::optional<CUmemoryPool> from, const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    if (dptr == nullptr) return refuse_null("dptr");
    *dptr = 0;
    StreamHandle stream;
    const CUresult found = find_working_stream(driver, argument, stream);
    if (found != CUDA_SUCCESS) return found;
    MemoryPools& pools = driver.pools();
    const std::shared_ptr<MemoryPool> pool =
        from ? pools.find(*from) : pools.current_of(stream.context->device.ordinal);
    if (!pool)
      return from ? refuse_pool(driver, *from) : refuse_more_pools(CUDA_ERROR_INVALID_VALUE);
    if (bytes == 0) return refuse_zero("bytesize");
    CUresult result = pool->allocate(bytes, stream, *dptr);
    if (result == CUDA_ERROR_OUT_OF_MEMORY && driver.give_back(*driver.device(pool->device())))
      result = pool->allocate(bytes, stream, *dptr);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) return refuse_size(driver, *pool, bytes);
    // Another error means that another thread has destroyed the pool during the call.
    return result == CUDA_SUCCESS ? result : refuse_handle(pool->handle());
  });
}

// Calls body() when the stream's earlier work is over.
void call_in_order(Driver& driver, const StreamHandle& stream, const std::function<void()>& body) {
  const WorkStatus status =
      stream.context->device.engine.add_callback(stream.stream, [body](WorkStatus) { body(); });
  if (status == WorkStatus::ok) return;
  // The context has failed: its own work no longer runs, but other contexts' work may use the
  // memory.
  driver.wait_for_all_work();
  body();
}

CUresult refuse_free(Runtime& runtime, std::uintptr_t address) {
  const auto record = runtime.heap().find_record(address);
  if (record && record->kind == MemoryKind::managed && !record->variable)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "{:#x} is managed memory, which no stream frees; use cuMemFree", address);
  return refuse_start(runtime, address, "cuMemFree");
}

CUresult free_imported_in_order(Driver& driver, std::uintptr_t address,
                                const StreamHandle& stream) {
  const auto piece = driver.imported().take_pooled(address);
  if (!piece) return refuse_free(driver.runtime(), address);
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
    // Otherwise other processes could open the memory after another allocation has got it.
    driver.offers().withdraw(*record);
    if (driver.pools().free_in_order(*record, stream)) return CUDA_SUCCESS;
    // The context has failed: its own work no longer runs, but other contexts' work may use the
    // memory.
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
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "flags of map[{}] is {}; pass CU_MEM_ACCESS_FLAGS_PROT_NONE or _READWRITE",
                  &access - wanted.data(), static_cast<int>(access.flags));
    if (none && access.location.id == own_device)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "device {} is the pool's own, which always has access; leave map[{}] out",
                  own_device, &access - wanted.data());
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
  return allocate(dptr, bytesize, hStream, std::nullopt);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr* dptr, size_t bytesize, CUmemoryPool pool,
                                 CUstream hStream) {
  return allocate(dptr, bytesize, hStream, pool);
}
CUresult cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream) {
  return free_in_order(dptr, hStream);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool* pool_out, CUdevice dev) {
  return tell_pool(pool_out, dev, [dev](MemoryPools& pools) { return pools.default_of(dev); });
}
CUresult cuDeviceGetMemPool(CUmemoryPool* pool, CUdevice dev) {
  return tell_pool(pool, dev, [dev](MemoryPools& pools) { return pools.current_of(dev); });
}
CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  return enter([&](Driver& driver) {
    if (driver.device(dev) == nullptr) return refuse_device(driver.runtime(), dev);
    const auto found = driver.pools().find(pool);
    if (!found) return refuse_pool(driver, pool);
    if (found->device() != dev)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the pool is of device {}, not of device {}; pass a pool of that device",
                  found->device(), dev);
    driver.pools().set_current(found);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* poolProps) {
  return enter([&](Driver& driver) {
    if (pool == nullptr) return refuse_null("pool");
    if (poolProps == nullptr) return refuse_null("poolProps");
    const CUresult checked = check_properties(driver, *poolProps);
    if (checked != CUDA_SUCCESS) return checked;
    const std::size_t whole = round_up(poolProps->maxSize, block_size);
    const MemoryPool::Limits limits{
        whole == 0 ? std::numeric_limits<std::size_t>::max() : whole,
        poolProps->handleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    const auto made = driver.pools().create(poolProps->location.id, limits);
    if (!made) return refuse_more_pools(CUDA_ERROR_OUT_OF_MEMORY);
    *pool = made->handle();
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  return enter([&](Driver& driver) {
    if (driver.imported_memory_pools().take(pool)) return CUDA_SUCCESS;
    if (!driver.pools().destroy(pool))
      return driver.pools().find(pool)
                 ? fail(CUDA_ERROR_INVALID_VALUE,
                        "the pool is a device's default pool, which is never destroyed; destroy "
                        "pools of cuMemPoolCreate")
                 : refuse_handle(pool);
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
    if (value == nullptr) return refuse_null("value");
    driver.pools().note_excess();  // the new threshold may be lower
    return found->set_attribute(attr, value);
  });
}
CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void* value) {
  return enter_pool(pool, [&](Driver&, const auto& found) {
    return value == nullptr ? refuse_null("value") : found->get_attribute(attr, value);
  });
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* map, size_t count) {
  return enter([&](Driver& driver) {
    const auto imported = driver.imported_memory_pools().find(pool);
    const auto own = driver.pools().find(pool);
    if (!imported && !own) return refuse_handle(pool);
    if (map == nullptr) return refuse_null("map");
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
    if (!imported && !own) return refuse_handle(memPool);
    if (flags == nullptr) return refuse_null("flags");
    if (location == nullptr) return refuse_null("location");
    const CUresult known = find_device(driver, *location);
    if (known != CUDA_SUCCESS) return known;
    const bool accessible = imported ? driver.imported().is_accessible(*imported, location->id)
                                     : own->is_accessible(location->id);
    *flags = accessible ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return CUDA_SUCCESS;
  });
}
