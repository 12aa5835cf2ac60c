#include "objects/offers.h"

#include <algorithm>

#include "objects/failures/last_failure.h"
#include "objects/failures/refusals.h"

namespace wherry::impl {
namespace {

std::uint64_t id_of(const void* pool) {
  return reinterpret_cast<std::uintptr_t>(pool);
}

}  // namespace

CUresult Offers::offer(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id,
                       const Offer& what, OfferHandle& handle) {
  if (const auto known = offers.find(id); known != offers.end()) {
    handle = known->second;
    return CUDA_SUCCESS;
  }
  if (!board_) board_ = std::make_unique<OfferBoard>();
  const auto known = offers.emplace(id, OfferHandle{}).first;
  const auto posted = board_->post(what);
  if (!posted) {
    offers.erase(known);
    return fail(CUDA_ERROR_OUT_OF_MEMORY,
                "this process shares {} objects, and cannot share more; free some of them first",
                OfferBoard::slots_max);
  }
  handle = known->second = *posted;
  return CUDA_SUCCESS;
}

CUresult Offers::offer(std::uintptr_t address, MemoryKind kind, OfferHandle& handle) {
  const LockGuard guard(lock_);
  // A thread that frees the memory removes its record first, and takes this lock to withdraw the
  // offer after that. So if the record is found now, the offer will be withdrawn.
  const auto record = runtime_.memory().find(address);
  if (!record || record->kind != kind || record->variable)
    return fail(CUDA_ERROR_INVALID_VALUE, "no memory of {} is at {:#x}; pass an address of such",
                kind == MemoryKind::pooled ? "a pool (cuMemAllocAsync)" : "a device (cuMemAlloc)",
                address);
  const ManagedHeap::FilePlace place = runtime_.heap().file_place(record->base, record->device);
  Offer what;
  what.descriptor = place.fd;
  what.file = identify_file(place.fd);
  what.offset = place.offset;
  what.bytes = record->bytes;
  what.device = runtime_.device_config(record->device).number;
  if (kind == MemoryKind::pooled) {
    if (record->base != address) return refuse_inside(address, record->base, record->bytes);
    const auto pool = pools_.find(id_of(record->pool));
    if (pool == pools_.end())
      return fail(CUDA_ERROR_INVALID_VALUE,
                  "the pool of the memory at {:#x} is not shared; call "
                  "cuMemPoolExportToShareableHandle for it first",
                  address);
    what.kind = OfferKind::pooled;
    what.pool = pool->second.ticket;
  }
  return offer(memory_, record->id, what, handle);
}

CUresult Offers::offer(CUmemoryPool pool, int device, OfferHandle& handle) {
  const LockGuard guard(lock_);
  Offer what;
  what.kind = OfferKind::pool;
  what.device = runtime_.device_config(device).number;
  return offer(pools_, id_of(pool), what, handle);
}

CUresult Offers::offer(const SharedEvent& event, OfferHandle& handle) {
  const LockGuard guard(lock_);
  Offer what;
  what.kind = OfferKind::event;
  what.descriptor = event.fd();
  what.file = identify_file(event.fd());
  what.bytes = SharedEvent::bytes();
  return offer(events_, event.serial(), what, handle);
}

void Offers::withdraw(const SharedEvent& event) {
  const LockGuard guard(lock_);
  take_down(events_, event.serial());
}

void Offers::take_down(std::map<std::uint64_t, OfferHandle>& offers, std::uint64_t id) {
  const auto known = offers.find(id);
  if (known == offers.end()) return;
  board_->withdraw(known->second);
  offers.erase(known);
}

void Offers::withdraw(CUmemoryPool pool) {
  const LockGuard guard(lock_);
  take_down(pools_, id_of(pool));
}

void Offers::withdraw(const MemoryRecord& record) {
  const LockGuard guard(lock_);
  take_down(memory_, record.id);
}

void Offers::free(const MemoryRecord& record) {
  {
    const LockGuard guard(lock_);
    const bool was_offered = memory_.contains(record.id);
    take_down(memory_, record.id);
    // A process that opens the memory marks it first, and then checks that it is still offered. So
    // if there is no mark now, it will not be opened.
    if (was_offered && is_open_elsewhere(record)) {
      kept_.push_back(record);
      keeps_.store(true);
      return;
    }
  }
  free_now(record);
}

bool Offers::free_returned() {
  if (!keeps_.load()) return false;
  std::vector<MemoryRecord> returned;
  {
    const LockGuard guard(lock_);
    const auto first = std::partition(kept_.begin(), kept_.end(), [&](const MemoryRecord& record) {
      return is_open_elsewhere(record);
    });
    returned.assign(first, kept_.end());
    kept_.erase(first, kept_.end());
    keeps_.store(!kept_.empty());
  }
  for (const MemoryRecord& record : returned) free_now(record);
  return !returned.empty();
}

void Offers::free_now(const MemoryRecord& record) {
  if (!p2p_pages_.keep(record)) runtime_.heap().free_device(record.base);
}

}  // namespace wherry::impl
