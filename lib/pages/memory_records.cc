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
    const bool whole = read(entry->index, *record);
    if (whole && record->contains(address)) return record;
    // The address lies in the record's first page, before the record begins; or the slot now
    // belongs to another record.
    if (whole && table_.find(address) == entry) break;
  }
  record.reset();
  return record;
}

std::optional<MemoryRecords::Sort> MemoryRecords::sort_of(std::uintptr_t address) const {
  const auto entry = table_.find(address);
  if (!entry) return std::nullopt;
  const Sort sort{static_cast<MemoryKind>(entry->tag >> device_bits),
                  entry->tag % (1 << device_bits)};
  // The memory may begin later in its first page.
  if (sort.kind == MemoryKind::registered && !find(address)) return std::nullopt;
  return sort;
}

bool MemoryRecords::is_taken(std::uintptr_t base, std::size_t bytes) const {
  return table_.finds_any(base, base + bytes);
}

std::optional<std::uint64_t> MemoryRecords::insert(MemoryRecord record) {
  const LockGuard guard(lock_);
  // Only registered memory can collide: addresses that the library assigns are always separate.
  if (record.kind == MemoryKind::registered && is_taken(record.base, record.bytes))
    return std::nullopt;
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
  enter(record.base, record.bytes, entry);
  if (record.device_base != record.base) {
    try {
      enter(record.device_base, record.bytes, entry);
    } catch (...) {
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

void MemoryRecords::erase(const MemoryRecord& record) {
  const auto entry = table_.find(record.base);
  leave(record.base, record.bytes);
  if (record.device_base != record.base) leave(record.device_base, record.bytes);
  slot(entry->index).words[id_word].store(0, std::memory_order_relaxed);
  free_.push_back(entry->index);
}

bool MemoryRecords::set_sync_memops(const MemoryRecord& record, bool value) {
  const LockGuard guard(lock_);
  const auto entry = table_.find(record.base);
  if (!entry) return false;
  MemoryRecord now;
  if (!read(entry->index, now) || now.id != record.id) return false;
  now.sync_memops = value;
  // Stores a single word, so that no reader sees half of the change.
  slot(entry->index)
      .words[sort_word]
      .store(std::bit_cast<Words>(now)[sort_word], std::memory_order_relaxed);
  return true;
}

}  // namespace wherry::impl
