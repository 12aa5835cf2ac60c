#include "objects/virtual_memory.h"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>
#include <utility>

#include "base/log.h"
#include "base/page.h"
#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"

namespace wherry::impl {
namespace {

CUresult refuse_mapping(int error) {
  return fail(
      error == ENOMEM ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_ERROR_OPERATING_SYSTEM,
      "a processor cannot map or unmap the memory: errno {} of Linux; free other memory and "
      "try again",
      error);
}

// Devices may get access to all memory; the host only to host memory, and as one of its nodes only
// to memory that was made for a node.
bool may_reach(const VirtualMemory::Grant& grant, const Location& location) {
  if (!grant.processor.is_host()) return true;
  return grant.is_for_nodes ? location.kind == Location::Kind::host_node
                            : location.kind != Location::Kind::device;
}

}  // namespace

// ---- addresses

std::optional<std::uintptr_t> VirtualMemory::find_place(std::size_t bytes, std::size_t alignment,
                                                        std::uintptr_t hint) {
  Annex& annex = runtime_.annex();
  if (bytes > annex.size()) return std::nullopt;
  const bool may_begin_there = hint != 0 && hint % std::max(alignment, block_size) == 0;
  if (may_begin_there && annex.reserve_at(hint, bytes)) return hint;
  return alignment > block_size ? annex.reserve_aligned(bytes, alignment) : annex.reserve(bytes);
}

std::optional<std::uintptr_t> VirtualMemory::reserve(std::size_t bytes, std::size_t alignment,
                                                     std::uintptr_t hint) {
  const LockGuard guard(lock_);
  const auto address = find_place(bytes, alignment, hint);
  if (!address) return std::nullopt;
  try {
    reserved_.emplace(*address, bytes);
  } catch (...) {
    runtime_.annex().release(*address);
    throw;
  }
  return address;
}

bool VirtualMemory::release(std::uintptr_t address, std::size_t bytes) {
  const LockGuard guard(lock_);
  const auto reserved = reserved_.find(address);
  if (reserved == reserved_.end() || reserved->second != bytes ||
      is_mapped({address, address + bytes}))
    return false;
  reserved_.erase(reserved);
  runtime_.annex().release(address);
  return true;
}

const std::pair<const std::uintptr_t, std::size_t>* VirtualMemory::reservation_around(
    std::uintptr_t address) const {
  const auto past = reserved_.upper_bound(address);
  if (past == reserved_.begin()) return nullptr;
  const auto& reservation = *std::prev(past);
  return address - reservation.first < reservation.second ? &reservation : nullptr;
}

std::optional<AddressRange> VirtualMemory::reserved_around(std::uintptr_t address) const {
  const LockGuard guard(lock_);
  const auto* const found = reservation_around(address);
  if (found == nullptr) return std::nullopt;
  return AddressRange{found->first, found->first + found->second};
}

// ---- memory

VirtualMemory::Handle VirtualMemory::add(PhysicalMemory memory) {
  const LockGuard guard(lock_);
  auto made = std::make_shared<Memory>(Memory{std::move(memory), next_, 1});
  memories_.emplace(next_, std::move(made));
  return next_++;
}

std::optional<PhysicalMemory> VirtualMemory::find(Handle handle) const {
  const LockGuard guard(lock_);
  const auto found = memories_.find(handle);
  if (found == memories_.end()) return std::nullopt;
  return found->second->physical;
}

std::shared_ptr<const Fd> VirtualMemory::find_own(const FileIdentity& file) const {
  const LockGuard guard(lock_);
  const auto is_it = [&](const Memory& memory) {
    return memory.physical.is_own && memory.physical.identity == file;
  };
  for (const auto& [handle, memory] : memories_)
    if (is_it(*memory)) return memory->physical.file;
  for (const auto& [address, range] : mapped_)
    if (is_it(*range.memory)) return range.memory->physical.file;
  return nullptr;
}

bool VirtualMemory::drop(Handle handle) {
  const LockGuard guard(lock_);
  const auto found = memories_.find(handle);
  if (found == memories_.end()) return false;
  if (--found->second->references == 0) memories_.erase(found);
  return true;
}

std::optional<VirtualMemory::Handle> VirtualMemory::retain(std::uintptr_t address) {
  const LockGuard guard(lock_);
  const auto range = mapped_around(address);
  if (range == mapped_.end()) return std::nullopt;
  const auto& memory = range->second.memory;
  memories_.emplace(memory->handle, memory);
  ++memory->references;
  return memory->handle;
}

// ---- mappings

VirtualMemory::MappedRanges::const_iterator VirtualMemory::mapped_around(
    std::uintptr_t address) const {
  const auto past = mapped_.upper_bound(address);
  if (past == mapped_.begin()) return mapped_.end();
  const auto range = std::prev(past);
  return address - range->first < range->second.bytes() ? range : mapped_.end();
}

bool VirtualMemory::is_mapped(AddressRange place) const {
  const auto next = mapped_.lower_bound(place.start);
  return mapped_around(place.start) != mapped_.end() ||
         (next != mapped_.end() && next->first < place.end);
}

std::optional<std::vector<VirtualMemory::MappedRanges::iterator>> VirtualMemory::mapped_in(
    AddressRange place) {
  const auto around = mapped_around(place.start);
  if (around != mapped_.end() && around->first != place.start) return std::nullopt;
  std::vector<MappedRanges::iterator> found;
  for (auto range = mapped_.lower_bound(place.start);
       range != mapped_.end() && range->first < place.end; ++range) {
    if (range->second.bytes() > place.end - range->first) return std::nullopt;
    found.push_back(range);
  }
  return found;
}

std::vector<VirtualMemory::MappedRanges::iterator> VirtualMemory::mapped_exactly(
    AddressRange place) {
  auto found = mapped_in(place);
  if (!found) return {};
  std::size_t bytes = 0;
  for (const auto& range : *found) bytes += range->second.bytes();
  if (bytes != place.size()) return {};
  return std::move(*found);
}

void VirtualMemory::remember(AddressRange place, const Memory& memory) {
  const Location& location = memory.physical.traits.location;
  MemoryRecord record;
  record.base = record.device_base = place.start;
  record.bytes = place.size();
  record.mapping_pages = place.size() / page_size;
  record.kind = MemoryKind::mapped;
  if (location.kind == Location::Kind::device)
    record.device = static_cast<std::uint8_t>(location.id);
  else
    record.flags = mapped_host_memory;
  runtime_.memory().insert(record);
}

CUresult VirtualMemory::map(std::uintptr_t address, Handle handle) {
  const LockGuard guard(lock_);
  const auto memory = memories_.find(handle);
  const auto* const reserved = reservation_around(address);
  if (memory == memories_.end()) return refuse_handle(handle);
  if (reserved == nullptr)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "no addresses are reserved at {:#x}; reserve them with cuMemAddressReserve",
                address);
  const AddressRange place{address, address + memory->second->physical.bytes};
  if (place.end > reserved->first + reserved->second)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the range {:#x}+{} ends after its reservation {:#x}+{}; reserve more addresses",
                address, place.size(), reserved->first, reserved->second);
  if (is_mapped(place)) return refuse_mapped(address, place.size());
  const auto range = mapped_.emplace(address, MappedRange{memory->second, {}}).first;
  try {
    remember(place, *memory->second);
  } catch (...) {
    mapped_.erase(range);
    throw;
  }
  return CUDA_SUCCESS;
}

int VirtualMemory::give(MappedRanges::iterator range, Processor p, Access access) {
  const std::uintptr_t address = range->first;
  MappedRange& mapped = range->second;
  if (mapped.access_of(p) == access) return 0;
  Annex& annex = runtime_.annex();
  const int error =
      access == Access::none
          ? annex.hide(address, mapped.bytes(), p.bit())
          : annex.show({{address, mapped.bytes(), mapped.memory->physical.file, 0}, access},
                       p.bit());
  if (error == 0) mapped.access_of(p) = access;
  return error;
}

CUresult VirtualMemory::unmap(AddressRange place) {
  const LockGuard guard(lock_);
  const auto ranges = mapped_in(place);
  if (!ranges)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the range {:#x}+{} contains a part of a mapping; pass whole mappings", place.start,
                place.size());
  // Unmaps all before it forgets any: if a device does not answer the program may try again.
  for (const auto& range : *ranges)
    for (int i = 0; i < max_processors; ++i)
      if (const int error = give(range, Processor{i}, Access::none)) {
        log_line("processor {} does not let go of memory that is unmapped: {}", i - 1,
                 std::generic_category().message(error));
        return refuse_mapping(error);
      }
  for (const auto& range : *ranges) {
    const auto record =
        runtime_.memory().take(range->first, [](const MemoryRecord&) { return true; });
    if (record) runtime_.status().forget_names(record->base, record->bytes);
    mapped_.erase(range);
  }
  return CUDA_SUCCESS;
}

bool VirtualMemory::takes_away(AddressRange place, const Accesses& left) const {
  const LockGuard guard(lock_);
  for (auto range = mapped_.lower_bound(place.start);
       range != mapped_.end() && range->first < place.end; ++range)
    for (std::size_t i = 1; i < left.size(); ++i)
      if (range->second.access[i] > left[i]) return true;
  return false;
}

CUresult VirtualMemory::set_access(AddressRange place, std::span<const Grant> grants) {
  const LockGuard guard(lock_);
  const auto ranges = mapped_exactly(place);
  if (ranges.empty())
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the range {:#x}+{} does not consist of whole mappings; map memory with cuMemMap "
                "first, and pass all of it",
                place.start, place.size());
  std::map<int, Access> wanted;
  for (const Grant& grant : grants) {
    wanted[grant.processor.index] = grant.access;
    for (const auto& range : ranges)
      if (!may_reach(grant, range->second.memory->physical.traits.location))
        return fail(CUDA_ERROR_NOT_SUPPORTED,
                    "the host accesses only memory that was created on it, and a node only that of "
                    "nodes; create it there, or leave this location out");
  }
  struct Before {
    MappedRanges::iterator range;
    Processor processor;
    Access access;
  };
  std::vector<Before> done;
  done.reserve(ranges.size() * wanted.size());
  for (const auto& range : ranges) {
    for (const auto& entry : wanted) {
      const Processor p{entry.first};
      done.push_back({range, p, range->second.access_of(p)});
      const int error = give(range, p, entry.second);
      if (error == 0) continue;
      for (const Before& before : done)
        static_cast<void>(give(before.range, before.processor, before.access));
      return refuse_mapping(error);
    }
  }
  return CUDA_SUCCESS;
}

// ---- what there is

std::optional<VirtualMemory::Mapped> VirtualMemory::mapped_at(std::uintptr_t address) const {
  const LockGuard guard(lock_);
  const auto found = mapped_around(address);
  if (found == mapped_.end()) return std::nullopt;
  const MappedRange& range = found->second;
  return Mapped{{found->first, found->first + range.bytes()},
                range.memory->handle,
                range.memory->physical,
                range.access};
}

}  // namespace wherry::impl
