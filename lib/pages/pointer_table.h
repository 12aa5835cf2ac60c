// Finds the range of memory that contains an address, for any address of the process. It is a radix
// tree that readers use without a lock and without waiting: three loads where a range consists of
// whole 2 MiB blocks, four where it is in units of 64 KiB, five where it is in pages.
//
// A word of the tree describes one stretch of addresses. If the stretch contains one range only,
// which begins at or before the stretch's start, the word itself holds the range's data. Otherwise
// the word points to a table of smaller stretches. It then points to that table for ever, because
// readers may be in the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/lock.h"
#include "os/memory/mapping.h"
#include "os/memory/sparse_memory.h"

namespace wherry::impl {

class PointerTable {
 public:
  // The data that is kept for a range.
  struct Entry {
    std::uint32_t index = 0;  // less than index_end
    std::uint8_t tag = 0;

    bool operator==(const Entry&) const = default;
  };
  static constexpr std::uint32_t index_end = 1 << 24;

  // For the ranges of an arena of this size, and for others outside of it. Throws
  // std::system_error.
  explicit PointerTable(std::size_t arena_bytes);

  // Returns the entry of the range that contains the address, or nullopt if no range does. A reader
  // that finds a range sees everything that was written before the range was inserted. Any thread.
  std::optional<Entry> find(std::uintptr_t address) const {
    const Word* const node = node_of(address);
    if (node == nullptr) return std::nullopt;
    // Acquire pairs with the release in put() and split().
    std::uint64_t word = node[(address >> shifts[0]) % node_words].load(std::memory_order_acquire);
    unsigned level = 0;
    while (is_table(word)) {
      word = table_of(word)[(address >> shifts[level + 1]) % words_below(level)].load(
          std::memory_order_acquire);
      ++level;
    }
    if (!is_range(word) || address % stretch(level) >= end_of(word)) return std::nullopt;
    return entry_of(word);
  }

  // Whether a range covers any page that overlaps [begin, end). Stretches that hold nothing are
  // skipped as a whole. Any thread.
  bool finds_any(std::uintptr_t begin, std::uintptr_t end) const;

  // Inserts a range. Requires: it begins on a page boundary and shares no page with another range.
  // Throws std::bad_alloc, and has then changed nothing.
  void insert(std::uintptr_t address, std::size_t bytes, Entry entry) EXCLUDES(lock_);
  // Changes the entry of an inserted range that lies in one page, and has it cover all of the page,
  // at once for readers.
  void replace(std::uintptr_t page, Entry entry) EXCLUDES(lock_);
  // Removes an inserted range.
  void erase(std::uintptr_t address, std::size_t bytes) EXCLUDES(lock_);

 private:
  using Word = std::atomic<std::uint64_t>;

  // The bits of a user-space address: 47 on x86-64, up to 48 on arm64.
  static constexpr unsigned address_bits = 48;
  static constexpr unsigned node_shift = 34;
  // The size of the stretch that one word of a level describes, as a power of two: words of nodes
  // first.
  static constexpr unsigned shifts[] = {21, 16, 12};
  static constexpr unsigned last_level = 2;
  static constexpr std::size_t node_words = std::size_t{1} << (node_shift - shifts[0]);
  static constexpr std::uintptr_t stretch(unsigned level) {
    return std::uintptr_t{1} << shifts[level];
  }
  static constexpr std::size_t words_below(unsigned level) {
    return std::size_t{1} << (shifts[level] - shifts[level + 1]);
  }

  // A word is 0 (empty), a pointer to a table with table_bit set, or a range: range_bit, the index,
  // the tag, and the offset in the stretch at which the range ends.
  static constexpr std::uint64_t range_bit = 1;
  static constexpr std::uint64_t table_bit = 2;
  static constexpr unsigned index_shift = 2;
  static constexpr unsigned tag_shift = 26;
  static constexpr unsigned end_shift = 34;
  static_assert(index_end == 1 << (tag_shift - index_shift));
  static std::uint64_t make_word(Entry entry, std::uintptr_t end) {
    return range_bit | std::uint64_t{entry.index} << index_shift |
           std::uint64_t{entry.tag} << tag_shift | end << end_shift;
  }
  static constexpr std::uintptr_t end_of(std::uint64_t word) { return word >> end_shift; }
  static constexpr Entry entry_of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> index_shift) % index_end,
            static_cast<std::uint8_t>(word >> tag_shift)};
  }
  static constexpr bool is_range(std::uint64_t word) { return (word & range_bit) != 0; }
  static constexpr bool is_table(std::uint64_t word) { return (word & table_bit) != 0; }
  static Word* table_of(std::uint64_t word) { return reinterpret_cast<Word*>(word & ~table_bit); }

  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    Entry entry;
  };

  static Word* words(const Mapping& memory) { return reinterpret_cast<Word*>(memory.data()); }
  // The words of the 16 GiB around the address, or null if no range was ever inserted there.
  Word* node_of(std::uintptr_t address) const {
    if (address >> address_bits != 0) return nullptr;
    return reinterpret_cast<Word*>(
        words(root_)[address >> node_shift].load(std::memory_order_acquire));
  }
  Word* make_node(std::uintptr_t address) REQUIRES(lock_);
  Word* make_table(std::size_t count) REQUIRES(lock_);
  Word* split(Word& word, unsigned level) REQUIRES(lock_);
  void put(Word& word, unsigned level, std::uintptr_t start, const Range& range) REQUIRES(lock_);
  static void clear(Word& word, unsigned level, std::uintptr_t start, const Range& range);

  const Mapping root_;  // pointers to nodes
  Mutex lock_{LockOrder::addresses};
  SparseMemory memory_ GUARDED_BY(lock_);   // nodes and tables are allocated from it
  std::size_t used_ GUARDED_BY(lock_) = 0;  // bytes of memory_ in use
};

}  // namespace wherry::impl
