// Which range of memory an address lies in, for any address of the process: a radix tree that is read without a lock and
// without waiting, by three loads where a range is whole 2 MiB blocks, four in units of 64 KiB, five in pages.
//
// A word of the tree stands for the range that lies in its stretch, when that is one range which begins where the stretch
// does, or before: what it needs of it fits into the word. Else the word points to a table of smaller stretches; it does
// so for good then, because readers may be in the table.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "os/mapping.h"

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

  // Throws std::system_error.
  PointerTable();

  // Of the range that the address lies in. What was written before a range was inserted is seen by who finds it. Any thread.
  std::optional<Entry> find(std::uintptr_t address) const;

  // The range begins on a page and shares none with another one. Throws std::system_error, std::bad_alloc, and has then changed
  // nothing.
  void insert(std::uintptr_t address, std::size_t bytes, Entry entry) EXCLUDES(lock_);
  // Takes such a range out.
  void erase(std::uintptr_t address, std::size_t bytes) EXCLUDES(lock_);

 private:
  using Word = std::atomic<std::uint64_t>;
  struct Range {
    std::uintptr_t begin;
    std::uintptr_t end;
    Entry entry;
  };

  static Word* words(const Mapping& memory) { return reinterpret_cast<Word*>(memory.data()); }
  // The words of the 16 GiB around the address; null: no range was ever there.
  Word* node_of(std::uintptr_t address) const;
  Word* make_node(std::uintptr_t address) REQUIRES(lock_);
  Word* make_table(std::size_t count) REQUIRES(lock_);
  Word* split(Word& word, unsigned level) REQUIRES(lock_);
  void put(Word& word, unsigned level, std::uintptr_t start, const Range& range) REQUIRES(lock_);
  static void clear(Word& word, unsigned level, std::uintptr_t start, const Range& range);

  const Mapping root_;  // pointers to nodes
  Mutex lock_;          // a leaf
  std::vector<Mapping> memory_
      GUARDED_BY(lock_);                    // of nodes and tables; the last one is being filled
  std::size_t used_ GUARDED_BY(lock_) = 0;  // bytes of that
};

}  // namespace wherry::impl
