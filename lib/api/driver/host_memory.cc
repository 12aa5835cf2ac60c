// The C functions of host memory that devices access in place: allocated and registered memory.
#include "api/entry.h"
#include "objects/failures/bad_arguments.h"
#include "objects/ranges.h"

using namespace wherry::impl;

namespace {

constexpr unsigned allocation_flags =
    CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
constexpr unsigned registration_flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                                        CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;

MemoryRecord record_of(const Context& context, const HostRange& range, MemoryKind kind,
                       unsigned flags) {
  MemoryRecord record;
  record.base = range.base;
  record.device_base = range.device_base;
  record.bytes = range.bytes;
  record.context = context.handle;
  record.kind = kind;
  record.device = static_cast<std::uint8_t>(context.device.ordinal);
  record.flags = static_cast<std::uint16_t>(flags);
  return record;
}

HostRange range_of(const MemoryRecord& record) {
  return {record.base, record.device_base, record.bytes};
}

CUresult allocate(void** pp, std::size_t bytes, unsigned flags,
                  const char* call = __builtin_FUNCTION()) {
  return enter_unsafe(call, [&](Driver& driver) {
    if (pp == nullptr) return refuse_null("pp");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *pp = nullptr;
    if (bytes == 0) return refuse_zero("bytesize");
    if ((flags & ~allocation_flags) != 0) return refuse_bits(flags, allocation_flags, "Flags");
    const bool apart = (flags & CU_MEMHOSTALLOC_WRITECOMBINED) != 0;
    auto range = driver.runtime().heap().allocate_host(bytes, apart);
    // If the host's pool is limited, unused device memory takes room from managed memory.
    if (!range && driver.give_back()) range = driver.runtime().heap().allocate_host(bytes, apart);
    if (!range) return refuse_host_bytes(driver.runtime(), bytes);
    MemoryRecord record = record_of(*context, *range, MemoryKind::host, flags);
    record.map_in_blocks();
    try {
      driver.memory().insert(record);
    } catch (...) {
      driver.runtime().heap().free_host(*range);
      throw;
    }
    *pp = reinterpret_cast<void*>(range->base);
    return CUDA_SUCCESS;
  });
}

CUresult refuse_fork() {
  return fail(
      CUDA_ERROR_TIMEOUT,
      "another thread's fork() does not finish; does a handler of pthread_atfork() wait for "
      "a lock that this thread holds?");
}

CUresult to_result(AdoptedRanges::Verdict verdict, AddressRange bytes) {
  switch (verdict) {
    case AdoptedRanges::Verdict::adopted:
      return CUDA_SUCCESS;
    case AdoptedRanges::Verdict::absent:
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "some of the range {:#x}+{} is not mapped, or not accessible as registered; pass "
                  "memory that exists",
                  bytes.start, bytes.size());
    case AdoptedRanges::Verdict::unsuitable:
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "some of the range {:#x}+{} is shared, locked or otherwise special; pass private "
                  "memory, for example of malloc, or use cuMemHostAlloc",
                  bytes.start, bytes.size());
    case AdoptedRanges::Verdict::no_space:
      return fail(CUDA_ERROR_OUT_OF_MEMORY,
                  "there is no memory for a copy of the range {:#x}+{}; free some", bytes.start,
                  bytes.size());
    case AdoptedRanges::Verdict::forking:
      return refuse_fork();
  }
  return CUDA_ERROR_UNKNOWN;
}

CUresult register_memory(Driver& driver, AddressRange bytes, unsigned flags) {
  std::shared_ptr<Context> context;
  const CUresult found = find_working(driver, context);
  if (found != CUDA_SUCCESS) return found;
  if (bytes.start == 0) return refuse_null("p");
  if (bytes.empty()) return refuse_extent(bytes.start, bytes.size());
  if ((flags & ~registration_flags) != 0) return refuse_bits(flags, registration_flags, "Flags");
  if ((flags & CU_MEMHOSTREGISTER_IOMEMORY) != 0)
    return fail(
        CUDA_ERROR_NOT_SUPPORTED,
        "memory of I/O devices cannot be registered; leave out CU_MEMHOSTREGISTER_IOMEMORY");
  // A range larger than the devices' address range cannot be memory of the program.
  if (bytes.size() > driver.runtime().layout().bytes() || overlaps_own(driver.runtime(), bytes))
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the range {:#x}+{} is not ordinary memory of the program, or too large; devices "
                "see the library's own memory without registration",
                bytes.start, bytes.size());

  HostMemory& host = driver.runtime().host_memory();
  const LockGuard guard(host.registering());
  if (driver.memory().overlaps(bytes.start, bytes.size()))
    return fail(CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED,
                "some of the range {:#x}+{} is registered; unregister it first", bytes.start,
                bytes.size());
  const auto range = host.find_place(bytes);
  if (!range) return refuse_addresses(bytes.size());
  const CUresult adopted =
      to_result(host.adopt(*range, (flags & CU_MEMHOSTREGISTER_READ_ONLY) != 0), bytes);
  if (adopted != CUDA_SUCCESS) return adopted;
  MemoryRecord record = record_of(*context, *range, MemoryKind::registered, flags);
  // The mapping consists of the pages of the registered range.
  record.mapping_pages =
      (round_up(bytes.end, page_size) - round_down(bytes.start, page_size)) / page_size;
  try {
    driver.memory().insert(record);
  } catch (...) {
    host.give_back(*range);
    throw;
  }
  return CUDA_SUCCESS;
}

CUresult refuse_unregistered(std::uintptr_t address) {
  return fail(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED,
              "no registered memory starts at {:#x}; pass the pointer of cuMemHostRegister",
              address);
}

CUresult unregister_memory(Driver& driver, std::uintptr_t address) {
  if (address == 0) return refuse_null("p");
  const auto known = driver.memory().find(address);
  if (!known) return refuse_unregistered(address);
  if (known->kind != MemoryKind::registered || known->base != address)
    return refuse_start(driver.runtime(), address, "cuMemHostUnregister");
  // Work that was launched earlier may still use the memory.
  driver.wait_for_all_work();
  HostMemory& host = driver.runtime().host_memory();
  const LockGuard guard(host.registering());
  if (!host.adopted().wait_for_fork()) return refuse_fork();
  const auto record = driver.memory().take(
      address, [](const MemoryRecord& found) { return found.kind == MemoryKind::registered; });
  if (!record) return refuse_unregistered(address);
  driver.runtime().status().forget_names(record->base, record->bytes);
  return host.give_back(range_of(*record))
             ? CUDA_SUCCESS
             : fail(CUDA_ERROR_OUT_OF_MEMORY,
                    "Linux has no memory to make the memory at {:#x} private again; it stays "
                    "accessible",
                    address);
}

}  // namespace

CUresult cuMemAllocHost_v2(void** pp, size_t bytesize) {
  return allocate(pp, bytesize, 0);
}
CUresult cuMemAllocHost(void** pp, unsigned int bytesize) {
  return allocate(pp, bytesize, 0);
}
CUresult cuMemHostAlloc(void** pp, size_t bytesize, unsigned int Flags) {
  return allocate(pp, bytesize, Flags);
}

CUresult cuMemFreeHost(void* p) {
  return enter_unsafe([&](Driver& driver) {
    if (p == nullptr) return CUDA_SUCCESS;
    const auto record = driver.memory().take(
        reinterpret_cast<std::uintptr_t>(p),
        [](const MemoryRecord& found) { return found.kind == MemoryKind::host; });
    if (!record)
      return refuse_start(driver.runtime(), reinterpret_cast<std::uintptr_t>(p), "cuMemFreeHost");
    driver.wait_for_all_work();
    driver.runtime().heap().free_host(range_of(*record));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr* pdptr, void* p, unsigned int Flags) {
  return enter([&](Driver& driver) {
    if (pdptr == nullptr) return refuse_null("pdptr");
    std::shared_ptr<Context> context;
    const CUresult found = find_working(driver, context);
    if (found != CUDA_SUCCESS) return found;
    *pdptr = 0;
    const auto address = reinterpret_cast<std::uintptr_t>(p);
    const auto record = driver.memory().find(address);
    if (Flags != 0) return refuse_flags(Flags, "Flags");
    if (!record || (record->kind != MemoryKind::host && record->kind != MemoryKind::registered))
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "{:#x} is neither memory of cuMemHostAlloc nor registered; register it first",
                  address);
    *pdptr = static_cast<CUdeviceptr>(record->device_address(address));
    return CUDA_SUCCESS;
  });
}
// No device address fits into 32 bits, so this old variant never succeeds.
CUresult cuMemHostGetDevicePointer(CUdeviceptr_v1* pdptr, void*, unsigned int) {
  if (pdptr != nullptr) *pdptr = 0;
  return enter([&](Driver& driver) {
    const CUresult working = check_working(driver);
    return working != CUDA_SUCCESS ? working : refuse_old_variant(CUDA_ERROR_INVALID_VALUE);
  });
}

CUresult cuMemHostGetFlags(unsigned int* pFlags, void* p) {
  return enter([&](Driver& driver) {
    if (pFlags == nullptr) return refuse_null("pFlags");
    const CUresult working = check_working(driver);
    if (working != CUDA_SUCCESS) return working;
    const auto record = driver.memory().find(reinterpret_cast<std::uintptr_t>(p));
    if (!record || !record->is_for_host())
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "{:#x} is in no host memory of the library; pass memory of cuMemHostAlloc",
                  reinterpret_cast<std::uintptr_t>(p));
    unsigned told = 0;
    if (record->kind == MemoryKind::host) told = CU_MEMHOSTALLOC_WRITECOMBINED;
    if (record->kind == MemoryKind::registered) told = ~0U;
    *pFlags = (record->flags & told) | CU_MEMHOSTALLOC_DEVICEMAP;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemHostRegister_v2(void* p, size_t bytesize, unsigned int Flags) {
  return enter_unsafe([&](Driver& driver) {
    const auto start = reinterpret_cast<std::uintptr_t>(p);
    return register_memory(driver, {start, start + bytesize}, Flags);
  });
}
CUresult cuMemHostRegister(void* p, size_t bytesize, unsigned int Flags) {
  return cuMemHostRegister_v2(p, bytesize, Flags);
}

CUresult cuMemHostUnregister(void* p) {
  return enter_unsafe([&](Driver& driver) {
    return unregister_memory(driver, reinterpret_cast<std::uintptr_t>(p));
  });
}
