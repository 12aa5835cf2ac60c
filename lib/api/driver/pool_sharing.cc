// The C functions that share memory pools between processes.
#include <bit>
#include <cstring>
#include <span>

#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/failures/shareable_handles.h"
#include "os/files/file_io.h"
#include "os/memory/sealed_memory.h"

using namespace wherry::impl;

namespace {

// The descriptor's file contains only the handle by which another process finds the pool.
CUresult export_pool(Driver& driver, CUmemoryPool handle, int& descriptor) {
  const auto pool = driver.pools().find(handle);
  if (!pool) return refuse_pool(driver, handle);
  if (!pool->is_for_processes())
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the pool is for this process only; create one with the handleTypes "
                "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR");
  OfferHandle offer;
  const CUresult offered = driver.offers().offer(handle, pool->device(), offer);
  if (offered != CUDA_SUCCESS) return offered;
  descriptor =
      make_sealed_file("wherry-pool-handle", std::as_bytes(std::span(&offer, 1))).release();
  return CUDA_SUCCESS;
}

CUresult import_pool(Driver& driver, int descriptor, CUmemoryPool& handle) {
  OfferHandle offer;
  const int got = read_at(descriptor, 0, std::as_writable_bytes(std::span(&offer, 1)));
  if (got != static_cast<int>(sizeof offer))
    return refuse_descriptor(descriptor, "cuMemPoolExportToShareableHandle");
  const auto pool = std::make_shared<ImportedMemoryPool>();
  const CUresult opened = driver.imported().open_pool(offer, current_device(driver), *pool);
  if (opened != CUDA_SUCCESS) return opened;
  handle = pool->handle = driver.imported_memory_pools().reserve();
  driver.imported_memory_pools().assign(handle, pool);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuMemPoolExportToShareableHandle(void* handle_out, CUmemoryPool pool,
                                          CUmemAllocationHandleType handleType,
                                          unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (handle_out == nullptr) return refuse_null("handle_out");
    if (flags != 0) return refuse_flags(flags);
    if (handleType != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
      return refuse_handle_type(CUDA_ERROR_INVALID_VALUE, handleType);
    int descriptor = -1;
    const CUresult result = export_pool(driver, pool, descriptor);
    if (result == CUDA_SUCCESS) std::memcpy(handle_out, &descriptor, sizeof descriptor);
    return result;
  });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool* pool_out, void* handle,
                                            CUmemAllocationHandleType handleType,
                                            unsigned long long flags) {
  return enter([&](Driver& driver) {
    if (pool_out == nullptr) return refuse_null("pool_out");
    if (flags != 0) return refuse_flags(flags);
    const CUresult checked = check_imported_handle_type(handleType);
    if (checked != CUDA_SUCCESS) return checked;
    const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(handle));
    return import_pool(driver, descriptor, *pool_out);
  });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData* shareData_out, CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    if (shareData_out == nullptr) return refuse_null("shareData_out");
    OfferHandle offer;
    const CUresult offered = driver.offers().offer(ptr, MemoryKind::pooled, offer);
    if (offered == CUDA_SUCCESS) *shareData_out = std::bit_cast<CUmemPoolPtrExportData>(offer);
    return offered;
  });
}

CUresult cuMemPoolImportPointer(CUdeviceptr* ptr_out, CUmemoryPool pool,
                                CUmemPoolPtrExportData* shareData) {
  return enter([&](Driver& driver) {
    if (ptr_out == nullptr) return refuse_null("ptr_out");
    if (shareData == nullptr) return refuse_null("shareData");
    *ptr_out = 0;
    const auto imported = driver.imported_memory_pools().find(pool);
    if (!imported)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "{:#x} is no imported pool; pass one of cuMemPoolImportFromShareableHandle",
                  reinterpret_cast<std::uintptr_t>(pool));
    return driver.imported().open_pooled(std::bit_cast<OfferHandle>(*shareData), *imported,
                                         *ptr_out);
  });
}
