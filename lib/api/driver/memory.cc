// The C functions of managed memory and of devices' own memory.
#include <algorithm>
#include <limits>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"

using namespace wherry::impl;

namespace {

static_assert(attached_to_all == CU_MEM_ATTACH_GLOBAL);

unsigned clamp(std::size_t bytes) {
  return static_cast<unsigned>(std::min<std::size_t>(bytes, std::numeric_limits<unsigned>::max()));
}

// Finds the allocation's start and size. A null pointer means that the value is not wanted.
CUresult get_address_range(Driver& driver, CUdeviceptr* pbase, std::size_t* psize,
                           CUdeviceptr dptr) {
  std::shared_ptr<Context> context;
  const CUresult found = find_working(driver, context);
  if (found != CUDA_SUCCESS) return found;
  if (pbase == nullptr && psize == nullptr) return CUDA_SUCCESS;  // without a look at dptr
  auto record = driver.runtime().heap().find_record(static_cast<std::uintptr_t>(dptr));
  // Mapped memory that the context's device may not access counts as not found.
  if (record && record->kind == MemoryKind::mapped) {
    const auto mapped = driver.virtual_memory().mapped_at(dptr);
    const Processor own = Processor::device(context->device.ordinal);
    if (!mapped || mapped->access_of(own) == Access::none) record.reset();
  }
  if (pbase != nullptr) *pbase = record ? record->start_of_range(dptr) : 0;
  if (psize != nullptr) *psize = record ? record->bytes : 0;
  return record ? CUDA_SUCCESS
                : fail(CUDA_ERROR_NOT_FOUND,
                       "no memory of the library is at {:#x} that the context's device can access; "
                       "was it freed?",
                       dptr);
}

CUresult refuse_array(const char* call = __builtin_FUNCTION()) {
  return enter(call, [&](Driver& driver) {
    const CUresult working = check_working(driver);
    return working != CUDA_SUCCESS
               ? working
               : fail(CUDA_ERROR_NOT_SUPPORTED,
                      "there are no arrays of textures; use memory of cuMemAlloc");
  });
}

// Records an allocation of the context. Frees the allocation if that fails.
CUresult remember(Driver& driver, const Context& context, const Allocation& allocation,
                  MemoryKind kind, CUdeviceptr* dptr) {
  MemoryRecord record;
  record.base = record.device_base = driver.runtime().heap().address_of(allocation);
  record.bytes = allocation.bytes;
  record.context = context.handle;
  record.map_in_blocks();
  record.kind = kind;
  record.device = static_cast<std::uint8_t>(context.device.ordinal);
  record.flags = static_cast<std::uint16_t>(allocation.flags);
  record.sync_memops = kind == MemoryKind::managed;
  try {
    driver.memory().insert(record);
  } catch (...) {
    driver.runtime().heap().free(record.base);
    throw;
  }
  *dptr = static_cast<CUdeviceptr>(record.base);
  log_debug("{:#x}+{} is allocated: {}", record.base, record.bytes, name_of(kind));
  return CUDA_SUCCESS;
}

// Frees memory of another process's pool.
CUresult free_imported(Driver& driver, std::uintptr_t address) {
  const auto piece = driver.imported().take_pooled(address);
  if (!piece) return refuse_start(driver.runtime(), address, "cuMemFree");
  driver.end_import(*piece);
  return CUDA_SUCCESS;
}

CUresult free_memory(Driver& driver, std::uintptr_t address) {
  if (address == 0) return CUDA_SUCCESS;
  const auto record = driver.memory().take(address, [](const MemoryRecord& found) {
    return !found.variable &&
           (found.kind == MemoryKind::managed || found.kind == MemoryKind::device ||
            found.kind == MemoryKind::pooled);
  });
  if (!record) return free_imported(driver, address);
  log_debug("{:#x}+{} is freed: {}", record->base, record->bytes, name_of(record->kind));
  // Work that was launched earlier may still use the memory.
  driver.wait_for_all_work();
  driver.offers().free_returned();
  if (record->kind == MemoryKind::pooled) {
    driver.offers().withdraw(*record);
    driver.pools().free(*record);
  } else if (record->kind == MemoryKind::device) {
    driver.offers().free(*record);
  } else if (!driver.p2p_pages().keep(*record)) {
    driver.runtime().heap().free(address);
  }
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemAllocManaged(CUdeviceptr* dptr, size_t bytesize, unsigned int flags) {
  return enter_unsafe([&](Driver& driver) {
    if (dptr == nullptr) return refuse_null("dptr");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *dptr = 0;
    if (bytesize == 0) return refuse_zero("bytesize");
    if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "flags is {:#x}; pass CU_MEM_ATTACH_GLOBAL or CU_MEM_ATTACH_HOST", flags);
    auto allocation = driver.runtime().heap().allocate(bytesize, flags);
    // Managed memory may be in any pool, so memory pools of all devices give back unused pages.
    if (!allocation && driver.give_back())
      allocation = driver.runtime().heap().allocate(bytesize, flags);
    if (!allocation) return refuse_managed_bytes(driver.runtime(), bytesize);
    return remember(driver, *context, *allocation, MemoryKind::managed, dptr);
  });
}

CUresult cuMemAlloc_v2(CUdeviceptr* dptr, size_t bytesize) {
  return enter_unsafe([&](Driver& driver) {
    if (dptr == nullptr) return refuse_null("dptr");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *dptr = 0;
    if (bytesize == 0) return refuse_zero("bytesize");
    Device& device = context->device;
    const auto allocate = [&] {
      return driver.runtime().heap().allocate_device(bytesize, {Processor::device(device.ordinal)});
    };
    auto allocation = allocate();
    if (!allocation && driver.give_back(device)) allocation = allocate();
    if (!allocation) return refuse_bytes(driver.runtime(), device.ordinal, bytesize);
    return remember(driver, *context, *allocation, MemoryKind::device, dptr);
  });
}
// No allocation has an address that fits into 32 bits, so this old variant never succeeds.
CUresult cuMemAlloc(CUdeviceptr_v1* dptr, unsigned int bytesize) {
  if (dptr != nullptr) *dptr = 0;
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    if (dptr == nullptr) return refuse_null("dptr");
    if (bytesize == 0) return refuse_zero("bytesize");
    return refuse_old_variant(CUDA_ERROR_OUT_OF_MEMORY);
  });
}

CUresult cuArrayCreate_v2(CUarray*, const CUDA_ARRAY_DESCRIPTOR*) {
  return refuse_array();
}
CUresult cuArray3DCreate_v2(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*) {
  return refuse_array();
}

CUresult cuMemFree_v2(CUdeviceptr dptr) {
  return enter_unsafe(
      [&](Driver& driver) { return free_memory(driver, static_cast<std::uintptr_t>(dptr)); });
}
CUresult cuMemFree(CUdeviceptr_v1 dptr) {
  return cuMemFree_v2(dptr);
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  return enter([&](Driver& driver) {
    if (free == nullptr) return refuse_null("free");
    if (total == nullptr) return refuse_null("total");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    driver.offers().free_returned();
    driver.pools().give_back_excess();
    const int device = context->device.ordinal;
    const std::size_t capacity = driver.runtime().device_config(device).capacity;
    *total = capacity;
    // Freed memory that keeps its pages is available to the next allocation.
    const std::size_t available = driver.runtime().heap().spare_bytes(device);
    const std::size_t used = driver.runtime().budget().used_bytes(Processor::device(device));
    *free = std::min(capacity, capacity - std::min(capacity, used) + available);
    return CUDA_SUCCESS;
  });
}
CUresult cuMemGetInfo(unsigned int* free, unsigned int* total) {
  std::size_t free_bytes = 0;
  std::size_t total_bytes = 0;
  const CUresult result = cuMemGetInfo_v2(free == nullptr ? nullptr : &free_bytes,
                                          total == nullptr ? nullptr : &total_bytes);
  if (result == CUDA_SUCCESS) {
    *free = clamp(free_bytes);
    *total = clamp(total_bytes);
  }
  return result;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* pbase, size_t* psize, CUdeviceptr dptr) {
  return enter([&](Driver& driver) { return get_address_range(driver, pbase, psize, dptr); });
}
// No allocation has an address that fits into 32 bits, so this old variant answers "not found".
CUresult cuMemGetAddressRange(CUdeviceptr_v1* pbase, unsigned int* psize, CUdeviceptr_v1 dptr) {
  CUdeviceptr base = 0;
  std::size_t size = 0;
  const CUresult result = cuMemGetAddressRange_v2(pbase == nullptr ? nullptr : &base,
                                                  psize == nullptr ? nullptr : &size, dptr);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_FOUND) {
    if (pbase != nullptr) *pbase = static_cast<CUdeviceptr_v1>(base);
    if (psize != nullptr) *psize = clamp(size);
  }
  return result;
}
