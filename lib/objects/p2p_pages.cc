#include "objects/p2p_pages.h"

#include <algorithm>

#include "objects/failures/last_failure.h"
#include "objects/failures/results.h"

namespace wherry::impl {
namespace {

CUresult refuse_put(const WantedPages& wanted) {
  return fail(CUDA_ERROR_INVALID_VALUE,
              "the range {:#x}+{} with the token {} is not in use; pass what "
              "wherryGetP2PPages was given, once",
              wanted.address, wanted.bytes, wanted.token);
}

}  // namespace

std::vector<P2PPages::PinnedAllocation>::iterator P2PPages::find(unsigned token,
                                                                 std::uintptr_t address) {
  return std::ranges::find_if(allocations_, [&](const PinnedAllocation& entry) {
    return token == token_of(entry.record) && entry.record.contains(address);
  });
}

PageSpan P2PPages::pages_of(const WantedPages& wanted) const {
  const PageIndex first = *runtime_.layout().page_of(wanted.address);
  return {first, *runtime_.layout().page_of(wanted.address + wanted.bytes - 1) - first + 1};
}

CUresult P2PPages::find_in_arena(const WantedPages& wanted, PinnedAllocation& entry,
                                 std::vector<wherryPageExtent>& found) {
  const PageSpan pages = pages_of(wanted);
  if (entry.record.kind == MemoryKind::managed) {
    std::vector<PageSpan> fresh;
    const CUresult result = to_result(runtime_.pinning().pin(pages, &fresh));
    entry.pinned.insert(entry.pinned.end(), fresh.begin(), fresh.end());
    if (result != CUDA_SUCCESS) return result;
  }
  for (const Pinning::Extent& extent : runtime_.pinning().locate(pages)) {
    found.push_back({runtime_.layout().address_of(extent.pages.first), extent.pages.offset(),
                     extent.pages.bytes(), extent.fd});
  }
  return CUDA_SUCCESS;
}

CUresult P2PPages::find_mapped(const WantedPages& wanted, PinnedAllocation& entry,
                               std::vector<wherryPageExtent>& found) {
  const auto mapped = mapped_.mapped_at(wanted.address);
  // The program has unmapped the memory since the record was found.
  if (!mapped || mapped->place.start != entry.record.base)
    return fail(CUDA_ERROR_INVALID_VALUE,
                "the memory at {:#x} was unmapped during the call; unmap it later", wanted.address);
  entry.file = mapped->memory.file;
  const std::uintptr_t first = round_down(wanted.address, page_size);
  found.push_back({first, first - mapped->place.start,
                   round_up(wanted.address + wanted.bytes, page_size) - first, entry.file->get()});
  return CUDA_SUCCESS;
}

CUresult P2PPages::get(const WantedPages& wanted, std::span<wherryPageExtent> extents,
                       std::size_t& count) {
  const LockGuard guard(lock_);
  const auto record = records_.find(wanted.address);
  if (!record || wanted.token != token_of(*record) || wanted.bytes == 0 ||
      wanted.bytes > record->base + record->bytes - wanted.address)
    return fail(
        CUDA_ERROR_INVALID_VALUE,
        "the range {:#x}+{} is not inside the live allocation of the token {}; was it freed?",
        wanted.address, wanted.bytes, wanted.token);
  const bool is_mapped = record->kind == MemoryKind::mapped;
  if (!is_mapped && record->kind != MemoryKind::managed && record->kind != MemoryKind::device)
    return fail(CUDA_ERROR_NOT_SUPPORTED,
                "{:#x} is memory of a pool or of the host; pass managed or device memory",
                wanted.address);

  auto entry = find(wanted.token, wanted.address);
  if (entry == allocations_.end())
    entry = allocations_.insert(allocations_.end(), PinnedAllocation{*record, {}, {}, {}});
  std::vector<wherryPageExtent> found;
  CUresult result =
      is_mapped ? find_mapped(wanted, *entry, found) : find_in_arena(wanted, *entry, found);
  if (result == CUDA_SUCCESS) {
    count = found.size();
    if (found.size() > extents.size())
      result = fail(CUDA_ERROR_INVALID_VALUE,
                    "the pages are {} extents, and the array has {}; pass a longer one",
                    found.size(), extents.size());
  }
  if (result != CUDA_SUCCESS) {
    unpin_if_unused(entry);
    return result;
  }
  std::ranges::copy(found, extents.begin());
  entry->ranges.emplace_back(wanted.address, wanted.bytes);
  return CUDA_SUCCESS;
}

CUresult P2PPages::put(const WantedPages& wanted) {
  const LockGuard guard(lock_);
  const auto entry = find(wanted.token, wanted.address);
  if (entry == allocations_.end()) return refuse_put(wanted);
  const auto range = std::ranges::find(entry->ranges, Range{wanted.address, wanted.bytes});
  if (range == entry->ranges.end()) return refuse_put(wanted);
  entry->ranges.erase(range);
  unpin_if_unused(entry);
  return CUDA_SUCCESS;
}

void P2PPages::unpin_if_unused(std::vector<PinnedAllocation>::iterator entry) {
  if (!entry->ranges.empty()) return;
  for (const PageSpan pages : entry->pinned) runtime_.pinning().unpin(pages);
  if (entry->freed) runtime_.heap().free(entry->record.base);
  allocations_.erase(entry);
}

bool P2PPages::keep(const MemoryRecord& record) {
  const LockGuard guard(lock_);
  const auto entry = find(static_cast<unsigned>(record.id), record.base);
  if (entry == allocations_.end()) return false;
  entry->freed = true;
  return true;
}

}  // namespace wherry::impl
