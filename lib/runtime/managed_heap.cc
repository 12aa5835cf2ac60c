#include "runtime/managed_heap.h"

#include <new>
#include <optional>

#include "base/signal_blocking.h"
#include "migration/at_rest.h"
#include "migration/creation.h"
#include "migration/release.h"
#include "os/files/range_mark.h"
#include "runtime/block_runs.h"
#include "runtime/memory_events.h"
#include "runtime/retry.h"

namespace wherry::impl {
namespace {

// Rounds up. Does not overflow for any number of bytes.
std::uint64_t pages_of(std::size_t bytes) {
  return bytes / page_size + (bytes % page_size != 0 ? 1 : 0);
}

}  // namespace

std::optional<Allocation> ManagedHeap::place(std::size_t bytes, unsigned flags, Ownership owner) {
  const auto allocation = parts_.address_space.allocate(bytes, flags, owner);
  if (!allocation) return std::nullopt;
  const BlockIndex first = block_of(allocation->pages().first);
  const BlockIndex last = block_of(allocation->pages().end() - 1);
  if (!parts_.blocks.prepare(first, last.value - first.value + 1) ||
      !parts_.devices.open_arena(allocation->pages())) {
    parts_.address_space.begin_free(allocation->offset);
    parts_.address_space.end_free(*allocation);
    return std::nullopt;
  }
  parts_.page_owners.allocated(*allocation);
  record_allocation(parts_.layout, *allocation);
  return allocation;
}

std::optional<Allocation> ManagedHeap::allocate(std::size_t bytes, unsigned flags) {
  if (bytes > parts_.budget.managed_pages_max() * page_size) return std::nullopt;
  const std::uint64_t pages = round_up(bytes, page_size) / page_size;
  if (!parts_.budget.claim_managed(pages)) return std::nullopt;
  const auto allocation = place(bytes, flags, {});
  if (!allocation) parts_.budget.end_claim({}, pages);
  return allocation;
}

std::optional<Allocation> ManagedHeap::reserve_device(std::size_t bytes, Ownership owner) {
  const std::uint64_t pages = pages_of(bytes);
  if (!parts_.budget.claim_device(*owner.device, pages)) return std::nullopt;
  const auto allocation = place(bytes, 0, owner);
  if (!allocation) {
    parts_.budget.end_claim(owner, pages);
    return std::nullopt;
  }
  try {
    parts_.advice.enter_pin(allocation->pages());
    return allocation;
  } catch (const std::bad_alloc&) {
    // The caller treats nullopt as a full pool.
    free(address_of(*allocation));
    return std::nullopt;
  }
}

bool ManagedHeap::create_pages(PageSpan pages, Processor p) {
  return for_each_run(pages, [&](BlockIndex block, PageRun run) {
    Reservation reservation;
    return retry_incomplete([&] {
      return impl::create_pages(parts_.engine, parts_.evictor, parts_.blocks, block, run, p,
                                reservation);
    });
  });
}

bool ManagedHeap::create_device(std::uintptr_t address, std::size_t bytes, int device) {
  const PageIndex first = *parts_.layout.page_of(address);
  try {
    return create_pages({first, round_up(bytes, page_size) / page_size}, Processor::device(device));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::optional<Allocation> ManagedHeap::allocate_device(std::size_t bytes, Ownership owner) {
  if (const auto spare = parts_.spare.take(owner.device->ordinal(), pages_of(bytes))) {
    const Allocation again = parts_.address_space.renew(*offset_of(*spare), bytes);
    record_allocation(parts_.layout, again);
    return again;
  }
  const auto allocation = reserve_device(bytes, owner);
  if (!allocation || create_device(address_of(*allocation), bytes, owner.device->ordinal()))
    return allocation;
  free(address_of(*allocation));
  return std::nullopt;
}

bool ManagedHeap::free(std::uintptr_t address) {
  return remove(address, /*is_known_free=*/false);
}

void ManagedHeap::free_device(std::uintptr_t address) {
  const auto allocation = parts_.address_space.find(*offset_of(address));
  // Recorded before keep(), because after that another thread may allocate the memory.
  record_free(address, *allocation);
  parts_.status.forget_names(address, allocation->bytes);
  const int device = allocation->owner.device->ordinal();
  for (const std::uintptr_t gone : parts_.spare.keep(device, allocation->pages().count, address))
    remove(gone, /*is_known_free=*/true);
}

bool ManagedHeap::give_up_spare(int device) {
  const auto spare = parts_.spare.take_all(device);
  for (const std::uintptr_t address : spare) remove(address, /*is_known_free=*/true);
  return !spare.empty();
}

bool ManagedHeap::remove(std::uintptr_t address, bool is_known_free) {
  const auto offset = offset_of(address);
  if (!offset) return false;
  // To free a small allocation takes a few locks for a moment. Blocking signals for each of them,
  // not once for all, would take half of the time.
  std::optional<BlockedSignals> once(std::in_place);
  std::optional<Allocation> allocation;
  {
    // Exclusive: no thread enters advice for the pages after forget().
    const WriteGuard guard(parts_.advice.lock);
    allocation = parts_.address_space.begin_free(*offset);
    if (!allocation) return false;
    parts_.page_owners.freed(*allocation);
    parts_.advice.forget(allocation->pages());
  }
  if (allocation->bytes > block_size) once.reset();
  if (!is_known_free) record_free(address, *allocation);
  parts_.status.forget_names(address, allocation->bytes);
  const PageSpan pages = allocation->pages();
  wait_for_rest(
      parts_.engine.transfers(), pages,
      [&] { return !parts_.address_space.is_in_use(*allocation); }, "a copy never ended");
  if (end_free(*allocation)) return true;
  {
    const LockGuard guard(held_lock_);
    held_.push_back(*allocation);
    has_held_.store(true, std::memory_order_relaxed);
  }
  parts_.note_held();
  return true;
}

bool ManagedHeap::end_free(const Allocation& allocation) {
  const PageSpan pages = allocation.pages();
  if (!release_pages(parts_.engine, parts_.effects, parts_.blocks, pages, IfHeld::stay))
    return false;
  parts_.budget.end_claim(allocation.owner, pages.count);
  parts_.address_space.end_free(allocation);
  return true;
}

bool ManagedHeap::free_held() {
  if (!has_held_.load(std::memory_order_relaxed)) return true;
  const LockGuard guard(held_lock_);
  std::erase_if(held_, [&](const Allocation& allocation) { return end_free(allocation); });
  has_held_.store(!held_.empty(), std::memory_order_relaxed);
  return held_.empty();
}

std::optional<HostRange> ManagedHeap::allocate_host(std::size_t bytes, bool apart) {
  const Processor host = Processor::host();
  if (bytes > parts_.budget.capacity_bytes(host)) return std::nullopt;
  const std::uint64_t pages = round_up(bytes, page_size) / page_size;
  if (!parts_.budget.reserve(host, pages)) return std::nullopt;
  if (const auto range = parts_.host_memory.allocate(bytes, apart)) return range;
  parts_.budget.release(host, pages);
  return std::nullopt;
}

void ManagedHeap::free_host(const HostRange& range) {
  parts_.status.forget_names(range.base, range.bytes);
  parts_.host_memory.free(range);
  parts_.budget.release(Processor::host(), round_up(range.bytes, page_size) / page_size);
}

std::optional<std::uint64_t> ManagedHeap::offset_of(std::uintptr_t address) const {
  const auto page = parts_.layout.page_of(address);
  if (!page || parts_.variables.is_hidden(*page)) return std::nullopt;
  return impl::offset_of(*page) + address % page_size;
}

std::optional<Allocation> ManagedHeap::find(std::uintptr_t address) {
  auto offset = offset_of(address);
  if (!offset) {
    // It may be a variable of a module that was loaded since the last search.
    (void)parts_.variables.adopt_new();
    offset = offset_of(address);
  }
  return offset ? parts_.address_space.find(*offset) : std::nullopt;
}

std::optional<MemoryRecord> ManagedHeap::find_record(std::uintptr_t address) {
  auto record = parts_.records.find(address);
  if (!record && parts_.variables.adopt_new()) record = parts_.records.find(address);
  return record;
}

ManagedHeap::FilePlace ManagedHeap::file_place(std::uintptr_t address, int device) const {
  const std::uint64_t offset = *offset_of(address);
  return {parts_.pools.at(Processor::device(device)).file().fd_at(offset), offset};
}

bool ManagedHeap::is_open_elsewhere(std::uintptr_t address, std::size_t bytes, int device) const {
  const FilePlace place = file_place(address, device);
  return is_range_marked(place.fd, place.offset, round_up(bytes, page_size));
}

}  // namespace wherry::impl
