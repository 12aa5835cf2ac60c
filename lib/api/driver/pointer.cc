// The C functions that look up pointers.
#include <cstring>

#include "api/entry.h"
#include "base/page.h"
#include "objects/failures/bad_arguments.h"
#include "objects/thread_contexts.h"

using namespace wherry::impl;

namespace {

// The device ordinal of an address that no record contains.
constexpr int no_device = -2;

// The functions below return CUDA_ERROR_INVALID_VALUE without a reason, because for
// cuPointerGetAttributes a missing answer is no failure.

// Where the program wants the answer; writes a value with the type of the attribute.
class Answer {
 public:
  explicit Answer(void* data) : data_(data) {}

  CUresult number(std::uint32_t value) const { return write(value); }
  CUresult quantity(std::uint64_t value) const { return write(value); }
  CUresult pointer(const void* value) const { return write(value); }

 private:
  template <typename Value>
  CUresult write(Value value) const {
    std::memcpy(data_, &value, sizeof value);
    return CUDA_SUCCESS;
  }

  void* data_;
};

bool is_on_device(MemoryKind kind) {
  return kind != MemoryKind::host && kind != MemoryKind::registered;
}
// Memory of one device that is neither pooled, mapped nor a variable.
bool is_plain_device(const MemoryRecord& record) {
  return record.kind == MemoryKind::device && !record.variable;
}

bool is_attribute(CUpointer_attribute attribute) {
  return attribute >= CU_POINTER_ATTRIBUTE_CONTEXT &&
         attribute <= CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE;
}

// The token is the allocation's number. A third party names bytes by the token and an address in
// the allocation (wherryGetP2PPages).
CUresult give_tokens(Driver& driver, const MemoryRecord& record, void* data) {
  CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens{};
  tokens.vaSpaceToken = token_of(record);
  // The padding at the struct's end is not written.
  std::memcpy(
      data, &tokens,
      offsetof(CUDA_POINTER_ATTRIBUTE_P2P_TOKENS, vaSpaceToken) + sizeof tokens.vaSpaceToken);
  if (!is_on_device(record.kind) || record.is_mapped_host_memory()) return CUDA_ERROR_INVALID_VALUE;
  driver.memory().set_sync_memops(record, true);
  return CUDA_SUCCESS;
}

CUmemAllocationHandleType handle_types_of(Driver& driver, const MemoryRecord& record) {
  if (record.kind != MemoryKind::pooled) return CU_MEM_HANDLE_TYPE_NONE;
  const auto pool = driver.pools().of(record);
  return pool && pool->is_for_processes() ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                          : CU_MEM_HANDLE_TYPE_NONE;
}

CUresult give_sort(CUpointer_attribute attribute, MemoryKind kind, void* data) {
  if (attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED)
    return Answer(data).number(kind == MemoryKind::managed);
  return Answer(data).number(is_on_device(kind) ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
}

CUresult give(Driver& driver, CUpointer_attribute attribute, const MemoryRecord& record,
              std::uintptr_t address, void* data) {
  const Answer answer(data);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      return answer.pointer(record.context);
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      return give_sort(attribute, record.kind, data);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return answer.quantity(record.device_address(address));
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      if (record.is_for_host()) return answer.quantity(record.host_address(address));
      answer.pointer(nullptr);
      return CUDA_ERROR_INVALID_VALUE;
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return give_tokens(driver, record, data);
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      return answer.number(record.sync_memops);
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
      return answer.quantity(record.id);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer.number(record.device);
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
      return answer.number(is_plain_device(record));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer.quantity(record.start_of_range(address));
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer.quantity(record.bytes);
    case CU_POINTER_ATTRIBUTE_MAPPED:
      return answer.number(1);
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer.quantity(handle_types_of(driver, record));
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      return answer.number(is_plain_device(record));
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return answer.number(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
      return answer.pointer(record.pool);
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
      return answer.quantity(record.mapping_pages * page_size);
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
      return answer.quantity(record.mapping_base(address));
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      // Memory that was mapped together is one block, even if several allocations lie in it.
      return answer.quantity(record.mapping_base(record.base) / page_size);
  }
  return CUDA_ERROR_INVALID_VALUE;
}

// Finds the access that the current context's device has to the memory.
CUresult find_access(Driver& driver, const VirtualMemory::Mapped& mapped, Access& access) {
  std::shared_ptr<Context> context;
  const CUresult found = find_current(driver, context);
  if (found == CUDA_SUCCESS) access = mapped.access_of(Processor::device(context->device.ordinal));
  return found;
}

CUresult give_access(Driver& driver, const VirtualMemory::Mapped& mapped, const Answer& answer) {
  Access access = Access::none;
  const CUresult found = find_access(driver, mapped, access);
  if (found != CUDA_SUCCESS) return found;
  switch (access) {
    case Access::none:
      return answer.number(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_NONE);
    case Access::read:
      return answer.number(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READ);
    case Access::write:
      break;
  }
  return answer.number(CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE);
}

// Mapped memory has the same address for all processors that have access, and no address for
// others.
CUresult give_address(std::uintptr_t address, Access access, const Answer& answer) {
  const bool is_reached = access != Access::none;
  answer.quantity(is_reached ? address : 0);
  return is_reached ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

// Answers for memory that the program mapped itself, where the answer differs from other memory.
CUresult give_mapped(Driver& driver, CUpointer_attribute attribute, const MemoryRecord& record,
                     std::uintptr_t address, void* data) {
  const auto mapped = driver.virtual_memory().mapped_at(address);
  const auto reserved = driver.virtual_memory().reserved_around(address);
  // Another thread has unmapped the memory.
  if (!mapped || !reserved) return CUDA_ERROR_INVALID_VALUE;
  const Answer answer(data);
  const PhysicalTraits& traits = mapped->memory.traits;
  const bool is_of_device = traits.location.kind == Location::Kind::device;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      return answer.number(is_of_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER: {
      Access access = Access::none;
      const CUresult found = find_access(driver, *mapped, access);
      const CUresult given = give_address(address, access, answer);
      return found == CUDA_SUCCESS ? given : found;
    }
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return give_address(address, mapped->access_of(Processor::host()), answer);
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      return answer.number(
          static_cast<std::uint32_t>(is_of_device ? traits.location.id : CU_DEVICE_CPU));
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      return answer.quantity(reserved->start);
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
      return answer.quantity(reserved->size());
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
      return answer.quantity(traits.is_exportable ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                                                  : CU_MEM_HANDLE_TYPE_NONE);
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
      return answer.number(traits.is_for_third_parties);
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
      return give_access(driver, *mapped, answer);
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      return answer.quantity(mapped->handle);
    default:
      return give(driver, attribute, record, address, data);
  }
}

CUresult give_known(Driver& driver, CUpointer_attribute attribute, const MemoryRecord& record,
                    std::uintptr_t address, void* data) {
  return record.kind == MemoryKind::mapped ? give_mapped(driver, attribute, record, address, data)
                                           : give(driver, attribute, record, address, data);
}

// Gives the answers for an address that the library does not know.
void give_default(CUpointer_attribute attribute, std::uintptr_t address, void* data) {
  const Answer answer(data);
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return;  // the answer stays as it was
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      answer.quantity(address);
      return;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      answer.number(static_cast<std::uint32_t>(no_device));
      return;
    case CU_POINTER_ATTRIBUTE_CONTEXT:
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
      answer.quantity(0);
      return;
    default:
      answer.number(0);
  }
}

CUresult refuse_attribute(CUpointer_attribute attribute) {
  return fail(CUDA_ERROR_INVALID_VALUE, "attribute is {}; pass a value of CUpointer_attribute",
              static_cast<int>(attribute));
}

CUresult refuse_unknown(std::uintptr_t address) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "no memory of the library is at {:#x}; it is ordinary memory, or was freed", address);
}

// Notes why the memory has no value of this attribute.
CUresult refuse_answer(CUpointer_attribute attribute, std::uintptr_t address) {
  constexpr CUresult code = CUDA_ERROR_INVALID_VALUE;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
      return fail(code,
                  "the host cannot access the memory at {:#x}; copy it, or use managed memory, or "
                  "cuMemSetAccess for memory of cuMemMap",
                  address);
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      return fail(code,
                  "the context's device has no access to the memory at {:#x}; give it access with "
                  "cuMemSetAccess",
                  address);
    case CU_POINTER_ATTRIBUTE_P2P_TOKENS:
      return fail(code,
                  "the memory at {:#x} is the host's, which has no tokens; pass memory of a device",
                  address);
    default:
      return fail(code, "the memory at {:#x} was unmapped during the call; unmap it later",
                  address);
  }
}

CUresult get_attribute(Driver& driver, void* data, CUpointer_attribute attribute,
                       std::uintptr_t address) {
  if (data == nullptr) return refuse_null("data");
  if (!is_attribute(attribute)) return refuse_attribute(attribute);
  if (attribute == CU_POINTER_ATTRIBUTE_DEVICE_POINTER &&
      ThreadContexts::mine().current() == nullptr)
    return check_working(driver);
  // The most frequent questions are answered with one lookup.
  if (attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ||
      attribute == CU_POINTER_ATTRIBUTE_IS_MANAGED) {
    const auto sort = driver.memory().sort_of(address);
    if (sort && sort->kind != MemoryKind::mapped) return give_sort(attribute, sort->kind, data);
  }
  const auto record = driver.runtime().heap().find_record(address);
  if (!record) return refuse_unknown(address);
  const CUresult given = give_known(driver, attribute, *record, address, data);
  return given == CUDA_ERROR_INVALID_VALUE ? refuse_answer(attribute, address) : given;
}

}  // namespace

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return enter([&](Driver& driver) { return get_attribute(driver, data, attribute, ptr); });
}

CUresult cuPointerGetAttributes(unsigned int numAttributes, CUpointer_attribute* attributes,
                                void** data, CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    if (numAttributes == 0)
      return fail(CUDA_ERROR_INVALID_VALUE, "numAttributes is 0; ask for at least 1");
    if (attributes == nullptr) return refuse_null("attributes");
    if (data == nullptr) return refuse_null("data");
    for (unsigned i = 0; i < numAttributes; ++i)
      if (data[i] == nullptr)
        return fail(CUDA_ERROR_INVALID_VALUE, "data[{}] is NULL; pass a valid pointer", i);
    const auto record = driver.runtime().heap().find_record(ptr);
    for (unsigned i = 0; i < numAttributes; ++i) {
      if (!is_attribute(attributes[i])) return refuse_attribute(attributes[i]);
      // An attribute without an answer is no error for the other attributes.
      if (record)
        give_known(driver, attributes[i], *record, ptr, data[i]);
      else
        give_default(attributes[i], ptr, data[i]);
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuPointerSetAttribute(const void* value, CUpointer_attribute attribute, CUdeviceptr ptr) {
  return enter([&](Driver& driver) {
    if (value == nullptr) return refuse_null("value");
    if (attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "attribute {} cannot be set; only CU_POINTER_ATTRIBUTE_SYNC_MEMOPS can",
                  static_cast<int>(attribute));
    const auto record = driver.runtime().heap().find_record(ptr);
    if (!record) return refuse_unknown(ptr);
    if (record->kind == MemoryKind::mapped)
      return fail(CUDA_ERROR_NOT_SUPPORTED,
                  "{:#x} is mapped memory (cuMemMap), which has no such "
                  "attribute; pass other memory",
                  ptr);
    unsigned wanted = 0;
    std::memcpy(&wanted, value, sizeof wanted);
    driver.memory().set_sync_memops(*record, wanted != 0);
    return CUDA_SUCCESS;
  });
}
