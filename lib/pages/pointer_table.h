// Which range of memory an address lies in, for any address of the process: a radix tree that is
// read without a lock and without waiting, by three loads where a range is whole 2 MiB blocks, four
// in units of 64 KiB, five in pages.
//
// A word of the tree stands for the range that lies in its stretch, when that is one range which
// begins where the stretch does, or before: what it needs of it fits into the word. Else the word
// points to a table of smaller stretches; it does so for good then, because readers may be in the
// table.
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
  // What is said of a range.
  struct Entry {
    std::uint32_t index = 0;  // less than index_end
    std::uint8_t tag = 0;

    bool operator==(const Entry&) const = default;
  };
  static constexpr std::uint32_t index_end = 1 << 24;

  // For ranges of an arena of this size, and others. Throws std::system_error.
  explicit PointerTable(std::size_t arena_bytes);

  // Of the range that the address lies in. What was written before a range was inserted is seen by
  // who finds it. Any thread.
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

  // The range begins on a page and shares none with another one. Throws std::bad_alloc, and has
  // then changed nothing.
  void insert(std::uintptr_t address, std::size_t bytes, Entry entry) EXCLUDES(lock_);
  // Takes such a range out.
  void erase(std::uintptr_t address, std::size_t bytes) EXCLUDES(lock_);

 private:
  using Word = std::atomic<std::uint64_t>;

  static constexpr unsigned address_bits = 47;
  static constexpr unsigned node_shift = 34;
  // The stretch that one word of a level stands for, from the nodes down.
  static constexpr unsigned shifts[] = {21, 16, 12};
  static constexpr unsigned last_level = 2;
  static constexpr std::size_t node_words = std::size_t{1} << (node_shift - shifts[0]);
  static constexpr std::uintptr_t stretch(unsigned level) {
    return std::uintptr_t{1} << shifts[level];
  }
  static constexpr std::size_t words_below(unsigned level) {
    return std::size_t{1} << (shifts[level] - shifts[level + 1]);
  }

  // A word: 0, or a pointer to a table, or one of a range: its lowest bit, the index, the tag, and
  // where in the stretch it ends.
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
  // The words of the 16 GiB around the address; null: no range was ever there.
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
  SparseMemory memory_ GUARDED_BY(lock_);   // that nodes and tables are cut from
  std::size_t used_ GUARDED_BY(lock_) = 0;  // bytes of the memory
};

}  // namespace wherry::impl
