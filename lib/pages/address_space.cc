#include "pages/address_space.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/check.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t small_unit = pages_per_region * page_size;

// The value of the last stretch that begins before `end`, in a map from offsets, if it reaches
// beyond the byte at `offset`; nullptr otherwise.
template <typename Map, typename Bytes>
auto* last_in(Map& stretches, std::uint64_t offset, std::uint64_t end, Bytes bytes_of) {
  const auto after = stretches.lower_bound(end);
  if (after == stretches.begin()) return decltype(&after->second){};
  auto& [start, value] = *std::prev(after);
  return start + bytes_of(value) > offset ? &value : nullptr;
}

template <typename Map, typename Bytes>
bool overlaps(const Map& stretches, std::uint64_t offset, std::uint64_t bytes, Bytes bytes_of) {
  return last_in(stretches, offset, offset + bytes, bytes_of) != nullptr;
}

}  // namespace

void AddressSpace::FreeList::erase(std::map<std::uint64_t, std::uint64_t>::iterator stretch) {
  by_size_.erase({stretch->second, stretch->first});
  by_offset_.erase(stretch);
}

void AddressSpace::FreeList::insert(std::uint64_t offset, std::uint64_t bytes) {
  auto next = by_offset_.lower_bound(offset);
  if (next != by_offset_.end() && next->first == offset + bytes) {
    bytes += next->second;
    erase(next);
  }
  const auto previous = by_offset_.lower_bound(offset);
  if (previous != by_offset_.begin()) {
    const auto before = std::prev(previous);
    if (before->first + before->second == offset) {
      offset = before->first;
      bytes += before->second;
      erase(before);
    }
  }
  add(offset, bytes);
}

void AddressSpace::FreeList::add(std::uint64_t offset, std::uint64_t bytes) {
  const auto added = by_offset_.emplace(offset, bytes).first;
  try {
    by_size_.emplace(bytes, offset);
  } catch (const std::bad_alloc&) {
    by_offset_.erase(added);
    throw;
  }
}

std::optional<std::uint64_t> AddressSpace::FreeList::take(std::uint64_t bytes) {
  const auto fit = by_size_.lower_bound({bytes, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const std::uint64_t offset = fit->second;
  carve(offset, bytes);
  return offset;
}

std::optional<std::uint64_t> AddressSpace::FreeList::take_near(std::uint64_t offset,
                                                               std::uint64_t bytes,
                                                               std::uint64_t limit) {
  const auto shortest = by_size_.lower_bound({bytes, 0});
  if (shortest == by_size_.end()) return std::nullopt;
  auto fit = std::find_if(shortest, by_size_.end(),
                          [limit](const auto& stretch) { return stretch.second < limit; });
  if (fit == by_size_.end()) fit = shortest;
  const auto [length, start] = *fit;
  const std::uint64_t wanted = std::max(start, offset);
  const std::uint64_t found = start + length >= wanted + bytes ? wanted : start;
  carve(found, bytes);
  return found;
}

std::optional<std::uint64_t> AddressSpace::FreeList::take_from(std::uint64_t offset,
                                                               std::uint64_t bytes) {
  auto stretch = by_offset_.upper_bound(offset);
  if (stretch != by_offset_.begin()) --stretch;
  for (; stretch != by_offset_.end(); ++stretch) {
    const auto [start, length] = *stretch;
    const std::uint64_t found = std::max(start, offset);
    if (start + length < found + bytes) continue;
    carve(found, bytes);
    return found;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> AddressSpace::FreeList::take_aligned(std::uint64_t bytes,
                                                                  std::uint64_t alignment,
                                                                  std::uint64_t base) {
  for (const auto& [offset, length] : by_offset_) {
    // If no such address exists, the sum wraps around or lies beyond the stretch.
    const std::uint64_t start = round_up(base + offset, alignment) - base;
    if (start < offset || start - offset > length || bytes > length - (start - offset)) continue;
    const std::uint64_t found = start;
    carve(found, bytes);
    return found;
  }
  return std::nullopt;
}

bool AddressSpace::FreeList::carve(std::uint64_t offset, std::uint64_t bytes) noexcept {
  auto stretch = by_offset_.upper_bound(offset);
  if (stretch == by_offset_.begin()) return false;
  --stretch;
  const auto [start, length] = *stretch;
  if (start + length < offset + bytes) return false;
  std::pair<std::uint64_t, std::uint64_t> longer{start, offset - start};
  std::pair<std::uint64_t, std::uint64_t> shorter{offset + bytes, start + length - offset - bytes};
  if (longer.second < shorter.second) std::swap(longer, shorter);
  // The longer piece gets the map nodes of the whole stretch, so that it needs no new memory.
  auto by_offset = by_offset_.extract(stretch);
  auto by_size = by_size_.extract({length, start});
  if (longer.second == 0) return true;
  by_offset.key() = longer.first;
  by_offset.mapped() = longer.second;
  by_offset_.insert(std::move(by_offset));
  by_size.value() = {longer.second, longer.first};
  by_size_.insert(std::move(by_size));
  if (shorter.second == 0) return true;
  try {
    add(shorter.first, shorter.second);
  } catch (const std::bad_alloc&) {
  }
  return true;
}

bool AddressSpace::FreeList::overlaps(std::uint64_t offset, std::uint64_t bytes) const {
  return impl::overlaps(by_offset_, offset, bytes, [](std::uint64_t length) { return length; });
}

AddressSpace::AddressSpace(std::uint64_t bytes, std::uint64_t device_from)
    : device_from_(device_from),
      blocks_(round_up(bytes, block_size) / block_size),
      frees_of_blocks_(Mapping::zeroed(round_up(blocks_ * sizeof(std::uint64_t) + 1, page_size))) {
  large_.insert(0, round_down(bytes, block_size));
}

std::uint64_t AddressSpace::reserved_bytes(std::uint64_t bytes) {
  return round_up(bytes, bytes < block_size ? small_unit : block_size);
}

std::optional<std::uint64_t> AddressSpace::take_large(std::uint64_t bytes, const Ownership& owner) {
  if (device_from_ == 0) return large_.take(bytes);
  if (owner.is_managed()) return large_.take_near(bytes, bytes, device_from_);
  return large_.take_from(device_from_, bytes);
}

std::optional<std::uint64_t> AddressSpace::place(std::uint64_t bytes, const Ownership& owner) {
  if (bytes % block_size == 0) return take_large(bytes, owner);
  FreeList& small = small_of(owner);
  if (const auto offset = small.take(bytes)) return offset;
  const auto chunk = take_large(block_size, owner);
  if (!chunk) return std::nullopt;
  small.insert(*chunk, block_size);
  small.carve(*chunk, bytes);
  return chunk;
}

void AddressSpace::give_back(std::uint64_t offset, std::uint64_t bytes, FreeList& small) {
  if (bytes % block_size == 0 && offset % block_size == 0) {
    large_.insert(offset, bytes);
    return;
  }
  small.insert(offset, bytes);
  // A chunk that is completely free again serves large allocations.
  const std::uint64_t chunk = round_down(offset, block_size);
  if (small.carve(chunk, block_size)) large_.insert(chunk, block_size);
}

std::optional<Allocation> AddressSpace::allocate(std::uint64_t bytes, unsigned flags,
                                                 Ownership owner) {
  if (bytes == 0 || bytes > (std::uint64_t{1} << 56)) return std::nullopt;
  const std::uint64_t reserved = reserved_bytes(bytes);
  const WriteGuard guard(lock_);
  const auto offset = place(reserved, owner);
  if (!offset) return std::nullopt;
  return enter(*offset, bytes, flags, owner);
}

std::optional<Allocation> AddressSpace::allocate_at(std::uint64_t offset, std::uint64_t bytes) {
  const WriteGuard guard(lock_);
  if (!large_.carve(offset, bytes)) return std::nullopt;
  return enter(offset, bytes, 0, {});
}

std::optional<Allocation> AddressSpace::allocate_aligned(std::uint64_t bytes,
                                                         std::uint64_t alignment,
                                                         std::uint64_t base) {
  const WriteGuard guard(lock_);
  const auto offset = large_.take_aligned(bytes, alignment, base);
  if (!offset) return std::nullopt;
  return enter(*offset, bytes, 0, {});
}

Allocation AddressSpace::enter(std::uint64_t offset, std::uint64_t bytes, unsigned flags,
                               Ownership owner) {
  const Allocation allocation{offset, bytes, next_id_++, flags, owner, false};
  live_.emplace(offset, allocation);
  return allocation;
}

Allocation AddressSpace::adopt(std::uint64_t offset, std::uint64_t bytes, unsigned flags) {
  const WriteGuard guard(lock_);
  const Allocation allocation{offset, bytes, next_id_++, flags, {}, true};
  const bool is_new = live_.emplace(offset, allocation).second;
  WHERRY_CHECK(is_new, "offset {:#x} is already allocated", offset);
  return allocation;
}

std::optional<Allocation> AddressSpace::begin_free(std::uint64_t offset) {
  const WriteGuard guard(lock_);
  const auto found = live_.find(offset);
  if (found == live_.end() || found->second.is_variable || found->second.withdraws)
    return std::nullopt;
  const Allocation allocation = found->second;
  live_.erase(found);
  attachments_.erase(allocation.id);
  leaving_.emplace(offset, Leaving{reserved_bytes(allocation.bytes), allocation.retires});
  count_free(allocation);
  return allocation;
}

void AddressSpace::count_free(const Allocation& allocation) {
  const std::uint64_t number = frees_.fetch_add(1) + 1;
  const std::uint64_t end = allocation.offset + reserved_bytes(allocation.bytes);
  if (allocation.bytes >= block_size) {
    const std::uint64_t last = std::min(end / block_size, blocks_);
    for (std::uint64_t block = allocation.offset / block_size; block < last; ++block)
      last_large_free({block}).store(number, std::memory_order_relaxed);
    return;
  }
  for (std::uint64_t at = allocation.offset; at < end; at += small_unit)
    frees_of_regions_[place_of_region(at)].store(number, std::memory_order_relaxed);
}

std::uint64_t AddressSpace::last_free(PageIndex page) const {
  const BlockIndex block = block_of(page);
  if (block.value >= blocks_) return 0;  // variables, which are never freed
  const auto& small = frees_of_regions_[place_of_region(offset_of(page))];
  return std::max(small.load(std::memory_order_relaxed),
                  last_large_free(block).load(std::memory_order_relaxed));
}

bool AddressSpace::was_dead(PageIndex page, std::uint64_t frees) const {
  if (block_of(page).value >= blocks_ || last_free(page) > frees) return false;
  const ReadGuard guard(lock_);
  const std::uint64_t start = offset_of(page);
  return !overlaps(withdrawn_, start, page_size, [](std::uint64_t length) { return length; });
}

bool AddressSpace::begin_use(std::uint64_t offset, std::uint64_t id) {
  const WriteGuard guard(lock_);
  const auto allocation = find_locked(offset);
  if (!allocation || allocation->id != id || allocation->withdraws) return false;
  in_use_.push_back(id);
  return true;
}

void AddressSpace::end_use(std::uint64_t id) {
  const WriteGuard guard(lock_);
  const auto found = std::ranges::find(in_use_, id);
  WHERRY_CHECK(found != in_use_.end(), "allocation {} is not in use", id);
  in_use_.erase(found);
}

bool AddressSpace::is_in_use(const Allocation& allocation) const {
  const ReadGuard guard(lock_);
  return std::ranges::find(in_use_, allocation.id) != in_use_.end();
}

void AddressSpace::end_free(const Allocation& allocation) {
  const WriteGuard guard(lock_);
  FreeList& small = small_of(allocation.owner);
  const auto found = leaving_.find(allocation.offset);
  WHERRY_CHECK(found != leaving_.end(), "offset {:#x} is not being freed", allocation.offset);
  std::uint64_t start = found->first;
  const std::uint64_t end = start + found->second.bytes;
  const bool retires = found->second.retires;
  leaving_.erase(found);
  if (retires) {
    retired_.erase(retired_.lower_bound(start), retired_.lower_bound(end));
    return;
  }
  // Frees what lies between the retired stretches. A large allocation loses whole 2 MiB pieces
  // around them.
  auto hole = retired_.lower_bound(start);
  while (hole != retired_.end() && *hole < end) {
    const std::uint64_t unit = allocation.bytes < block_size ? small_unit : block_size;
    const std::uint64_t lost = round_down(*hole, unit);
    if (lost > start) give_back(start, lost - start, small);
    start = std::max(start, lost + unit);
    hole = retired_.erase(hole);
  }
  if (start < end) give_back(start, end - start, small);
}

std::optional<Allocation> AddressSpace::begin_withdrawal(std::uint64_t offset) {
  const WriteGuard guard(lock_);
  const auto found = live_.find(offset);
  if (found == live_.end() || found->second.is_variable || found->second.withdraws ||
      found->second.bytes < block_size)
    return std::nullopt;
  found->second.withdraws = true;
  return found->second;
}

void AddressSpace::end_withdrawal(const Allocation& allocation) {
  const WriteGuard guard(lock_);
  withdrawn_.emplace(allocation.offset, reserved_bytes(allocation.bytes));
  live_.erase(allocation.offset);
  attachments_.erase(allocation.id);
  count_free(allocation);
}

Allocation AddressSpace::renew(std::uint64_t offset, std::uint64_t bytes) {
  const WriteGuard guard(lock_);
  Allocation& allocation = live_.at(offset);
  attachments_.erase(allocation.id);
  allocation.bytes = bytes;
  allocation.id = next_id_++;
  return allocation;
}

void AddressSpace::attach(const Allocation& allocation, Attachment attachment) {
  const WriteGuard guard(lock_);
  const auto found = live_.find(allocation.offset);
  if (found == live_.end() || found->second.id != allocation.id) return;
  attachments_[allocation.id] = std::move(attachment);
}

unsigned AddressSpace::attach_flags(const Allocation& allocation) const {
  const ReadGuard guard(lock_);
  const auto found = attachments_.find(allocation.id);
  if (found == attachments_.end()) return allocation.flags;
  const auto& stream = found->second.stream;
  return stream && stream->expired() ? allocation.flags : found->second.flags;
}

std::optional<Allocation> AddressSpace::find_locked(std::uint64_t offset) const {
  auto after = live_.upper_bound(offset);
  if (after == live_.begin()) return std::nullopt;
  const Allocation& allocation = std::prev(after)->second;
  if (offset >= allocation.offset + round_up(allocation.bytes, page_size)) return std::nullopt;
  return allocation;
}

std::optional<Allocation> AddressSpace::find(std::uint64_t offset) const {
  const BriefReadGuard guard(lock_);
  return find_locked(offset);
}

std::vector<PageSpan> AddressSpace::pages_for(unsigned audience) const {
  std::vector<PageSpan> pages;
  const ReadGuard guard(lock_);
  for (const auto& [offset, allocation] : live_)
    if (allocation.owner.audience() == audience) pages.push_back(allocation.pages());
  return pages;
}

std::optional<PageSpan> AddressSpace::retire_if_dead(PageIndex page) {
  const WriteGuard guard(lock_);
  const std::uint64_t offset = offset_of(page);
  if (find_locked(offset)) return std::nullopt;
  retire_locked(page);
  for (const std::uint64_t unit : {block_size, small_unit})
    if (const std::uint64_t start = round_down(offset, unit); is_dead(start, unit))
      return PageSpan{page_at_offset(start), unit / page_size};
  return PageSpan{page, 1};
}

bool AddressSpace::is_dead(std::uint64_t offset, std::uint64_t bytes) const {
  const auto live_bytes = [](const Allocation& one) { return reserved_bytes(one.bytes); };
  const auto leaving_bytes = [](const Leaving& one) { return one.bytes; };
  return !overlaps(live_, offset, bytes, live_bytes) &&
         !overlaps(leaving_, offset, bytes, leaving_bytes) &&
         !overlaps(withdrawn_, offset, bytes, [](std::uint64_t length) { return length; }) &&
         !large_.overlaps(offset, bytes) && !small_managed_.overlaps(offset, bytes) &&
         !small_device_.overlaps(offset, bytes);
}

void AddressSpace::retire(PageIndex page) {
  const WriteGuard guard(lock_);
  retire_locked(page);
}

// Called for threads that wait for an answer, so it must not fail where memory is short.
void AddressSpace::retire_locked(PageIndex page) {
  const std::uint64_t stretch = round_down(offset_of(page), small_unit);
  // Free addresses are removed from the free lists. Addresses of an allocation that is live or
  // leaving are left out when it ends.
  if (small_managed_.carve(stretch, small_unit) || small_device_.carve(stretch, small_unit)) return;
  if (large_.carve(round_down(stretch, block_size), block_size)) return;
  Allocation* const live = last_in(live_, stretch, stretch + small_unit,
                                   [](const Allocation& one) { return reserved_bytes(one.bytes); });
  Leaving* const leaving = last_in(leaving_, stretch, stretch + small_unit,
                                   [](const Leaving& one) { return one.bytes; });
  // All other addresses have been retired before.
  if (live == nullptr && leaving == nullptr) return;
  try {
    retired_.insert(stretch);
  } catch (const std::bad_alloc&) {
    (live != nullptr ? live->retires : leaving->retires) = true;
  }
}

}  // namespace wherry::impl
