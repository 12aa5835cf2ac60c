#include "pages/pointer_table.h"

#include <algorithm>
#include <new>

#include "base/check.h"
#include "base/page.h"

namespace wherry::impl {
namespace {

// A thousandth of the size of the arena. The upper limit is what two million blocks of 2 MiB need
// that hold several ranges each.
std::size_t memory_bytes_for(std::size_t arena_bytes) {
  constexpr std::size_t least = std::size_t{16} << 20;
  constexpr std::size_t most = std::size_t{1} << 30;
  return std::clamp(arena_bytes / 1024, least, most);
}

}  // namespace

static_assert(block_size == 1 << 21 && page_size == 1 << 12);  // PointerTable::shifts

bool PointerTable::finds_any(std::uintptr_t begin, std::uintptr_t end) const {
  end = std::min(end, std::uintptr_t{1} << address_bits);
  for (std::uintptr_t at = round_down(begin, page_size); at < end;) {
    const Word* const node = node_of(at);
    if (node == nullptr) {
      at = round_down(at, std::uintptr_t{1} << node_shift) + (std::uintptr_t{1} << node_shift);
    } else if (node[(at >> shifts[0]) % node_words].load(std::memory_order_acquire) == 0) {
      at = round_down(at, stretch(0)) + stretch(0);
    } else {
      if (find(at)) return true;
      at += page_size;
    }
  }
  return false;
}

PointerTable::PointerTable(std::size_t arena_bytes)
    : root_(Mapping::zeroed(sizeof(Word) << (address_bits - node_shift))),
      memory_(memory_bytes_for(arena_bytes), block_size) {}

PointerTable::Word* PointerTable::make_table(std::size_t count) {
  const std::size_t bytes = count * sizeof(Word);
  if (used_ + bytes > memory_.size() || memory_.commit(used_, bytes) != 0) throw std::bad_alloc();
  Word* const table = reinterpret_cast<Word*>(memory_.data()) + used_ / sizeof(Word);
  used_ += bytes;
  return table;
}

PointerTable::Word* PointerTable::make_node(std::uintptr_t address) {
  WHERRY_CHECK(address >> address_bits == 0, "{:#x} is not a user-space address", address);
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

void PointerTable::replace(std::uintptr_t page, Entry entry) {
  const LockGuard guard(lock_);
  Word* word = &node_of(page)[(page >> shifts[0]) % node_words];
  unsigned level = 0;
  for (std::uint64_t now = word->load(std::memory_order_relaxed); is_table(now);
       now = word->load(std::memory_order_relaxed)) {
    word = &table_of(now)[(page >> shifts[level + 1]) % words_below(level)];
    ++level;
  }
  WHERRY_CHECK(page % stretch(level) == 0, "no range of its own at {:#x}", page);
  word->store(make_word(entry, page_size), std::memory_order_release);
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
