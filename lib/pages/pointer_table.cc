#include "pages/pointer_table.h"

#include <algorithm>

#include "base/check.h"
#include "base/page.h"

namespace wherry::impl {
namespace {

constexpr unsigned address_bits = 47;
constexpr unsigned node_shift = 34;

// The stretch that one word of a level stands for, from the nodes down.
constexpr unsigned shifts[] = {21, 16, 12};
constexpr unsigned last_level = 2;
static_assert(block_size == 1 << shifts[0] && page_size == 1 << shifts[last_level]);

constexpr std::size_t root_words = std::size_t{1} << (address_bits - node_shift);
constexpr std::size_t node_words = std::size_t{1} << (node_shift - shifts[0]);
constexpr std::size_t arena_bytes = 1 << 20;  // that tables are cut from

constexpr std::uintptr_t stretch(unsigned level) {
  return std::uintptr_t{1} << shifts[level];
}
constexpr std::size_t words_below(unsigned level) {
  return std::size_t{1} << (shifts[level] - shifts[level + 1]);
}

// A word: 0, or a pointer to a table, or one of a range: its lowest bit, the index, the tag, and where in the stretch it ends.
constexpr std::uint64_t range_bit = 1;
constexpr std::uint64_t table_bit = 2;
constexpr unsigned index_shift = 2;
constexpr unsigned tag_shift = 26;
constexpr unsigned end_shift = 34;
static_assert(PointerTable::index_end == 1 << (tag_shift - index_shift));

std::uint64_t make_word(PointerTable::Entry entry, std::uintptr_t end) {
  return range_bit | std::uint64_t{entry.index} << index_shift |
         std::uint64_t{entry.tag} << tag_shift | end << end_shift;
}
constexpr std::uintptr_t end_of(std::uint64_t word) {
  return word >> end_shift;
}
constexpr PointerTable::Entry entry_of(std::uint64_t word) {
  return {static_cast<std::uint32_t>(word >> index_shift) % PointerTable::index_end,
          static_cast<std::uint8_t>(word >> tag_shift)};
}
constexpr bool is_range(std::uint64_t word) {
  return (word & range_bit) != 0;
}
constexpr bool is_table(std::uint64_t word) {
  return (word & table_bit) != 0;
}
std::atomic<std::uint64_t>* table_of(std::uint64_t word) {
  return reinterpret_cast<std::atomic<std::uint64_t>*>(word & ~table_bit);
}

}  // namespace

PointerTable::PointerTable() : root_(Mapping::zeroed(root_words * sizeof(Word))) {}

PointerTable::Word* PointerTable::node_of(std::uintptr_t address) const {
  if (address >> address_bits != 0) return nullptr;
  return reinterpret_cast<Word*>(
      words(root_)[address >> node_shift].load(std::memory_order_acquire));
}

std::optional<PointerTable::Entry> PointerTable::find(std::uintptr_t address) const {
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

PointerTable::Word* PointerTable::make_table(std::size_t count) {
  const std::size_t bytes = count * sizeof(Word);
  if (memory_.empty() || used_ + bytes > arena_bytes) {
    memory_.push_back(Mapping::zeroed(arena_bytes));
    used_ = 0;
  }
  Word* const table = words(memory_.back()) + used_ / sizeof(Word);
  used_ += bytes;
  return table;
}

PointerTable::Word* PointerTable::make_node(std::uintptr_t address) {
  WHERRY_CHECK(address >> address_bits == 0, "no address of a program: {:#x}", address);
  if (Word* const node = node_of(address)) return node;
  Word* const node = make_table(node_words);
  words(root_)[address >> node_shift].store(reinterpret_cast<std::uintptr_t>(node),
                                            std::memory_order_release);
  return node;
}

PointerTable::Word* PointerTable::split(Word& word, unsigned level) {
  Word* const table = make_table(words_below(level));
  const std::uint64_t now = word.load(std::memory_order_relaxed);
  const std::uintptr_t below = stretch(level + 1);
  for (std::uintptr_t start = 0; start < end_of(now); start += below)
    table[start / below].store(make_word(entry_of(now), std::min(end_of(now) - start, below)),
                               std::memory_order_relaxed);
  word.store(reinterpret_cast<std::uintptr_t>(table) | table_bit, std::memory_order_release);
  return table;
}

void PointerTable::put(Word& word, unsigned level, std::uintptr_t start, const Range& range) {
  const std::uint64_t now = word.load(std::memory_order_relaxed);
  if (now == 0 && range.begin <= start) {
    const std::uintptr_t end = std::min(range.end - start, stretch(level));
    word.store(make_word(range.entry, end), std::memory_order_release);
    return;
  }
  WHERRY_CHECK(level < last_level, "two ranges in the page at {:#x}", start);
  Word* const table = is_table(now) ? table_of(now) : split(word, level);
  const std::uintptr_t below = stretch(level + 1);
  const std::uintptr_t end = std::min(range.end, start + stretch(level));
  for (std::uintptr_t part = round_down(std::max(range.begin, start), below); part < end;
       part += below)
    put(table[(part - start) / below], level + 1, part, range);
}

void PointerTable::clear(Word& word, unsigned level, std::uintptr_t start, const Range& range) {
  const std::uint64_t now = word.load(std::memory_order_relaxed);
  if (is_range(now) && entry_of(now) == range.entry) word.store(0, std::memory_order_relaxed);
  if (!is_table(now)) return;
  const std::uintptr_t below = stretch(level + 1);
  const std::uintptr_t end = std::min(range.end, start + stretch(level));
  for (std::uintptr_t part = round_down(std::max(range.begin, start), below); part < end;
       part += below)
    clear(table_of(now)[(part - start) / below], level + 1, part, range);
}

void PointerTable::insert(std::uintptr_t address, std::size_t bytes, Entry entry) {
  WHERRY_CHECK(address % page_size == 0 && bytes > 0, "{} bytes at {:#x}", bytes, address);
  const Range range{address, address + bytes, entry};
  try {
    const LockGuard guard(lock_);
    for (std::uintptr_t block = round_down(address, block_size); block < range.end;
         block += block_size)
      put(make_node(block)[(block >> shifts[0]) % node_words], 0, block, range);
  } catch (...) {
    erase(address, bytes);
    throw;
  }
}

void PointerTable::erase(std::uintptr_t address, std::size_t bytes) {
  const LockGuard guard(lock_);
  const auto entry = find(address);
  if (!entry) return;
  const Range range{address, address + bytes, *entry};
  for (std::uintptr_t block = round_down(address, block_size); block < range.end;
       block += block_size)
    if (Word* const node = node_of(block))
      clear(node[(block >> shifts[0]) % node_words], 0, block, range);
}

}  // namespace wherry::impl
