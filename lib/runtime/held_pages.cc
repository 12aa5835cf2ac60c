#include "runtime/held_pages.h"

#include <algorithm>

#include "runtime/results.h"

namespace wherry::impl {

std::vector<HeldPages::Hold>::iterator HeldPages::find(unsigned token, std::uintptr_t address) {
  return std::ranges::find_if(holds_, [&](const Hold& hold) {
    return token == token_of(hold.record) && hold.record.contains(address);
  });
}

PageSpan HeldPages::pages_of(const WantedPages& wanted) const {
  const std::uint64_t first = *runtime_.layout().page_of(wanted.address);
  return {first, *runtime_.layout().page_of(wanted.address + wanted.bytes - 1) - first + 1};
}

CUresult HeldPages::find_in_arena(const WantedPages& wanted, Hold& hold,
                                  std::vector<wherryPageExtent>& found) {
  const PageSpan pages = pages_of(wanted);
  if (hold.record.kind == MemoryKind::managed) {
    std::vector<PageSpan> fresh;
    const CUresult result = to_result(runtime_.pinning().pin(pages, &fresh));
    hold.pinned.insert(hold.pinned.end(), fresh.begin(), fresh.end());
    if (result != CUDA_SUCCESS) return result;
  }
  for (const Pinning::Extent& extent : runtime_.pinning().locate(pages)) {
    const std::uint64_t offset = extent.pages.first * page_size;
    found.push_back({runtime_.layout().address_of(extent.pages.first), offset,
                     extent.pages.count * page_size, extent.fd});
  }
  return CUDA_SUCCESS;
}

CUresult HeldPages::find_mapped(const WantedPages& wanted, Hold& hold,
                                std::vector<wherryPageExtent>& found) {
  const auto mapped = mapped_.mapped_at(wanted.address);
  // The program has unmapped it since the record was found.
  if (!mapped || mapped->place.start != hold.record.base) return CUDA_ERROR_INVALID_VALUE;
  hold.file = mapped->memory.file;
  const std::uintptr_t first = round_down(wanted.address, page_size);
  found.push_back({first, first - mapped->place.start,
                   round_up(wanted.address + wanted.bytes, page_size) - first, hold.file->get()});
  return CUDA_SUCCESS;
}

CUresult HeldPages::get(const WantedPages& wanted, std::span<wherryPageExtent> extents,
                        std::size_t& count) {
  const LockGuard guard(lock_);
  const auto record = records_.find(wanted.address);
  if (!record || wanted.token != token_of(*record) || wanted.bytes == 0 ||
      wanted.bytes > record->base + record->bytes - wanted.address)
    return CUDA_ERROR_INVALID_VALUE;
  const bool is_mapped = record->kind == MemoryKind::mapped;
  if (!is_mapped && record->kind != MemoryKind::managed && record->kind != MemoryKind::device)
    return CUDA_ERROR_NOT_SUPPORTED;

  auto hold = find(wanted.token, wanted.address);
  if (hold == holds_.end()) hold = holds_.insert(holds_.end(), Hold{*record, {}, {}, {}});
  std::vector<wherryPageExtent> found;
  CUresult result =
      is_mapped ? find_mapped(wanted, *hold, found) : find_in_arena(wanted, *hold, found);
  if (result == CUDA_SUCCESS) {
    count = found.size();
    if (found.size() > extents.size()) result = CUDA_ERROR_INVALID_VALUE;
  }
  if (result != CUDA_SUCCESS) {
    let_go(hold);
    return result;
  }
  std::ranges::copy(found, extents.begin());
  hold->ranges.emplace_back(wanted.address, wanted.bytes);
  return CUDA_SUCCESS;
}

CUresult HeldPages::put(const WantedPages& wanted) {
  const LockGuard guard(lock_);
  const auto hold = find(wanted.token, wanted.address);
  if (hold == holds_.end()) return CUDA_ERROR_INVALID_VALUE;
  const auto range = std::ranges::find(hold->ranges, Range{wanted.address, wanted.bytes});
  if (range == hold->ranges.end()) return CUDA_ERROR_INVALID_VALUE;
  hold->ranges.erase(range);
  let_go(hold);
  return CUDA_SUCCESS;
}

void HeldPages::let_go(std::vector<Hold>::iterator hold) {
  if (!hold->ranges.empty()) return;
  for (const PageSpan pages : hold->pinned) runtime_.pinning().unpin(pages);
  if (hold->freed) runtime_.heap().free(hold->record.base);
  holds_.erase(hold);
}

bool HeldPages::keep(const MemoryRecord& record) {
  const LockGuard guard(lock_);
  const auto hold = find(static_cast<unsigned>(record.id), record.base);
  if (hold == holds_.end()) return false;
  hold->freed = true;
  return true;
}

}  // namespace wherry::impl
