#include "pages/memory_records.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <iterator>
#include <new>

#include "base/page.h"

namespace wherry::impl {
namespace {

// The words of a record that change, or that readers check.
constexpr std::size_t id_word = offsetof(MemoryRecord, id) / sizeof(std::uint64_t);
constexpr std::size_t sort_word =
    offsetof(MemoryRecord, mapping_lead_pages) / sizeof(std::uint64_t);
using Words = std::array<std::uint64_t, 8>;
static_assert(sizeof(MemoryRecord) == sizeof(Words));

constexpr unsigned device_bits = 4;

// The least number of records. The program's own memory needs records too, however small the arena
// is.
constexpr std::size_t records_min = std::size_t{1} << 18;

// The tag of a page whose entry stands for several records. No kind has this number.
constexpr std::uint8_t crowd_tag = 0xf << device_bits;

bool is_crowd(PointerTable::Entry entry) {
  return entry.tag == crowd_tag;
}

// Calls page(start, bytes) for the first and the last page of registered memory if the memory
// covers them only in part, and pages(start, bytes) for the rest.
template <typename Page, typename Pages>
void for_each_part(std::uintptr_t base, std::size_t bytes, const Page& page, const Pages& pages) {
  std::uintptr_t start = round_down(base, page_size);
  const std::uintptr_t end = base + bytes;
  if (start != base || end < start + page_size) {
    page(start, std::min(end - start, page_size));
    start += page_size;
  }
  const std::uintptr_t last = round_down(end, page_size);
  if (start < last) pages(start, last - start);
  if (start <= last && last < end) page(last, end - last);
}

std::uint8_t tag_of(const MemoryRecord& record) {
  return static_cast<std::uint8_t>(static_cast<unsigned>(record.kind) << device_bits |
                                   record.device);
}

}  // namespace

MemoryRecords::MemoryRecords(std::size_t arena_bytes)
    : table_(arena_bytes),
      records_max_(
          std::clamp<std::size_t>(arena_bytes / page_size, records_min, PointerTable::index_end)),
      slots_(records_max_ * sizeof(Slot), block_size) {}

bool MemoryRecords::read(std::uint32_t index, MemoryRecord& record) const {
  const Slot& from = slot(index);
  // Acquire pairs with the release of the id in insert().
  const std::uint64_t id = from.words[id_word].load(std::memory_order_acquire);
  for (std::size_t i = 0; i < std::size(from.words); ++i) {
    const std::uint64_t word = from.words[i].load(std::memory_order_relaxed);
    // Copied word by word, because the caller reads single words next: a wider copy would have to
    // wait for all of these stores.
    std::memcpy(reinterpret_cast<std::byte*>(&record) + i * sizeof word, &word, sizeof word);
  }
  std::atomic_thread_fence(std::memory_order_acquire);
  return id != 0 && from.words[id_word].load(std::memory_order_relaxed) == id;
}

std::optional<MemoryRecord> MemoryRecords::find(std::uintptr_t address) const {
  std::optional<MemoryRecord> record(std::in_place);
  // Terminates: each further round means that another thread removed a record meanwhile.
  for (;;) {
    const auto entry = table_.find(address);
    if (!entry) break;
    if (is_crowd(*entry)) {
      const auto has_it = [&](std::uint32_t, const MemoryRecord& found) {
        if (found.contains(address)) *record = found;
        return found.contains(address);
      };
      if (any_in_page(round_down(address, page_size), *entry, has_it)) return record;
      break;
    }
    const bool whole = read(entry->index, *record);
    if (whole && record->contains(address)) return record;
    // The address lies in the record's first page, before the record begins; or the slot now
    // belongs to another record.
    if (whole && table_.find(address) == entry) break;
  }
  record.reset();
  return record;
}

template <typename F>
bool MemoryRecords::any_in_page(std::uintptr_t page, PointerTable::Entry entry, const F& f) const {
  MemoryRecord record;
  if (!is_crowd(entry)) return read(entry.index, record) && f(entry.index, record);
  const LockGuard guard(crowd_lock_);
  const auto crowd = crowds_.find(page);
  return crowd != crowds_.end() && std::ranges::any_of(crowd->second, [&](std::uint32_t index) {
           return read(index, record) && f(index, record);
         });
}

std::optional<MemoryRecords::Sort> MemoryRecords::sort_of(std::uintptr_t address) const {
  const auto entry = table_.find(address);
  if (!entry) return std::nullopt;
  if (is_crowd(*entry)) {
    const auto record = find(address);
    return record ? std::optional(Sort{record->kind, record->device}) : std::nullopt;
  }
  const Sort sort{static_cast<MemoryKind>(entry->tag >> device_bits),
                  entry->tag % (1 << device_bits)};
  // The memory may begin after the address, in the same page.
  if (sort.kind == MemoryKind::registered && !find(address)) return std::nullopt;
  return sort;
}

bool MemoryRecords::is_taken(std::uintptr_t base, std::size_t bytes) const {
  return table_.finds_any(base, base + bytes);
}

bool MemoryRecords::overlaps(std::uintptr_t base, std::size_t bytes) const {
  const std::uintptr_t end = base + bytes;
  const auto overlap = [&](std::uint32_t, const MemoryRecord& record) {
    const auto is_at = [&](std::uintptr_t start) {
      return start < end && base < start + record.bytes;
    };
    return is_at(record.base) || is_at(record.device_base);
  };
  bool any = false;
  for_each_part(
      base, bytes,
      [&](std::uintptr_t page, std::size_t) {
        // In the table a range that has only a part of this page begins at the page's start or
        // before, so a look at the page's start finds it.
        const auto entry = table_.find(page);
        any = any || (entry && any_in_page(page, *entry, overlap));
      },
      [&](std::uintptr_t start, std::size_t size) {
        any = any || table_.finds_any(start, start + size);
      });
  return any;
}

std::optional<std::uint64_t> MemoryRecords::insert(MemoryRecord record) {
  const LockGuard guard(lock_);
  // Only registered memory can collide: addresses that the library assigns are always separate.
  const bool is_registered = record.kind == MemoryKind::registered;
  if (is_registered && overlaps(record.base, record.bytes)) return std::nullopt;
  if (free_.empty()) {
    if (used_ == records_max_ || slots_.commit(used_ * sizeof(Slot), sizeof(Slot)) != 0)
      throw std::bad_alloc();
    free_.push_back(used_++);
  }
  const std::uint32_t index = free_.back();
  record.id = next_id_;
  const auto words = std::bit_cast<Words>(record);
  Slot& to = slot(index);
  // A thread that still reads the slot's previous record sees that the id has changed.
  to.words[id_word].store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i != id_word) to.words[i].store(words[i], std::memory_order_relaxed);
  to.words[id_word].store(record.id, std::memory_order_release);

  const PointerTable::Entry entry{index, tag_of(record)};
  if (is_registered)
    enter_registered(record.base, record.bytes, entry);
  else
    enter(record.base, record.bytes, entry);
  if (record.device_base != record.base) {
    try {
      enter(record.device_base, record.bytes, entry);
    } catch (...) {
      if (is_registered)
        leave_registered(record.base, record.bytes, index);
      else
        leave(record.base, record.bytes);
      throw;
    }
  }
  free_.pop_back();
  return next_id_++;
}

void MemoryRecords::enter(std::uintptr_t base, std::size_t bytes, PointerTable::Entry entry) {
  const std::uintptr_t page = round_down(base, page_size);
  table_.insert(page, base + bytes - page, entry);
}

void MemoryRecords::leave(std::uintptr_t base, std::size_t bytes) {
  const std::uintptr_t page = round_down(base, page_size);
  table_.erase(page, base + bytes - page);
}

void MemoryRecords::enter_registered(std::uintptr_t base, std::size_t bytes,
                                     PointerTable::Entry entry) {
  try {
    for_each_part(
        base, bytes,
        [&](std::uintptr_t page, std::size_t size)
            WHERRY_TSA(no_thread_safety_analysis) { enter_page(page, size, entry); },
        [&](std::uintptr_t start, std::size_t size) { table_.insert(start, size, entry); });
  } catch (...) {
    leave_registered(base, bytes, entry.index);
    throw;
  }
}

void MemoryRecords::leave_registered(std::uintptr_t base, std::size_t bytes, std::uint32_t index) {
  for_each_part(
      base, bytes,
      [&](std::uintptr_t page, std::size_t)
          WHERRY_TSA(no_thread_safety_analysis) { leave_page(page, index); },
      [&](std::uintptr_t start, std::size_t size) { table_.erase(start, size); });
}

void MemoryRecords::enter_page(std::uintptr_t page, std::size_t bytes, PointerTable::Entry entry) {
  const auto now = table_.find(page);
  if (!now) {
    table_.insert(page, bytes, entry);
    return;
  }
  {
    const LockGuard guard(crowd_lock_);
    auto& crowd = crowds_[page];
    crowd.reserve(crowd.size() + 2);
    if (!is_crowd(*now)) crowd.push_back(now->index);
    crowd.push_back(entry.index);
  }
  // A thread that finds this entry finds the crowd, too.
  if (!is_crowd(*now)) table_.replace(page, {0, crowd_tag});
}

void MemoryRecords::leave_page(std::uintptr_t page, std::uint32_t index) {
  const auto now = table_.find(page);
  if (!now) return;
  if (!is_crowd(*now)) {
    if (now->index == index) table_.erase(page, page_size);
    return;
  }
  {
    const LockGuard guard(crowd_lock_);
    auto& crowd = crowds_[page];
    std::erase(crowd, index);
    if (!crowd.empty()) return;
    crowds_.erase(page);
  }
  table_.erase(page, page_size);
}

std::optional<std::uint32_t> MemoryRecords::index_of(const MemoryRecord& record) const {
  const auto entry = table_.find(round_down(record.base, page_size));
  std::optional<std::uint32_t> found;
  const auto is_it = [&](std::uint32_t index, const MemoryRecord& there) {
    if (there.id == record.id) found = index;
    return there.id == record.id;
  };
  if (entry) any_in_page(round_down(record.base, page_size), *entry, is_it);
  return found;
}

void MemoryRecords::erase(const MemoryRecord& record) {
  const std::uint32_t index = *index_of(record);
  if (record.kind == MemoryKind::registered)
    leave_registered(record.base, record.bytes, index);
  else
    leave(record.base, record.bytes);
  if (record.device_base != record.base) leave(record.device_base, record.bytes);
  slot(index).words[id_word].store(0, std::memory_order_relaxed);
  free_.push_back(index);
}

bool MemoryRecords::set_sync_memops(const MemoryRecord& record, bool value) {
  const LockGuard guard(lock_);
  const auto index = index_of(record);
  if (!index) return false;
  MemoryRecord now;
  if (!read(*index, now)) return false;
  now.sync_memops = value;
  // Stores a single word, so that no reader sees half of the change.
  slot(*index).words[sort_word].store(std::bit_cast<Words>(now)[sort_word],
                                      std::memory_order_relaxed);
  return true;
}

}  // namespace wherry::impl
