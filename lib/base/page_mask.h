// A set of pages of one 2 MiB block: 512 bits, one cache line. Pages are numbered 0..511 within the
// block.
#pragma once

#include <array>
#include <bit>
#include <cstdint>

#include "base/page.h"

namespace wherry::impl {

// A half-open run of pages inside one block.
struct PageRun {
  unsigned first = 0;
  unsigned count = 0;

  constexpr unsigned end() const { return first + count; }
  constexpr bool operator==(const PageRun&) const = default;
};

// The part of `span` that lies in `block`.
constexpr PageRun run_in_block(BlockIndex block, PageSpan span) {
  const PageSpan part = intersect(block_span(block), span);
  return {static_cast<unsigned>(part.first - block_span(block).first),
          static_cast<unsigned>(part.count)};
}
constexpr PageSpan span_of(BlockIndex block, PageRun run) {
  return {block_span(block).first + run.first, run.count};
}

// The part of `run` inside the naturally aligned group of `size` pages (a power of two) around
// `page`. Requires: that part is not empty.
constexpr PageRun aligned_part(PageRun run, unsigned page, unsigned size) {
  const unsigned start = page & ~(size - 1);
  const unsigned first = run.first > start ? run.first : start;
  const unsigned end = run.end() < start + size ? run.end() : start + size;
  return {first, end - first};
}

class alignas(64) PageMask {
 public:
  constexpr PageMask() = default;
  static constexpr PageMask of(PageRun run) {
    PageMask mask;
    for (unsigned word = run.first / 64; word * 64 < run.end(); ++word)
      mask.words_[word] = bits(run, word);
    return mask;
  }

  constexpr bool test(unsigned page) const { return (words_[page / 64] >> (page % 64)) & 1; }
  constexpr bool none() const {
    for (const std::uint64_t word : words_)
      if (word != 0) return false;
    return true;
  }
  constexpr unsigned count() const {
    unsigned sum = 0;
    for (const std::uint64_t word : words_) sum += static_cast<unsigned>(std::popcount(word));
    return sum;
  }

  constexpr PageMask& operator|=(const PageMask& other) {
    for (unsigned i = 0; i < words_.size(); ++i) words_[i] |= other.words_[i];
    return *this;
  }
  constexpr PageMask& operator&=(const PageMask& other) {
    for (unsigned i = 0; i < words_.size(); ++i) words_[i] &= other.words_[i];
    return *this;
  }
  constexpr PageMask& operator-=(const PageMask& other) {
    for (unsigned i = 0; i < words_.size(); ++i) words_[i] &= ~other.words_[i];
    return *this;
  }
  friend constexpr PageMask operator|(PageMask a, const PageMask& b) { return a |= b; }
  friend constexpr PageMask operator&(PageMask a, const PageMask& b) { return a &= b; }
  friend constexpr PageMask operator-(PageMask a, const PageMask& b) { return a -= b; }
  constexpr PageMask operator~() const {
    PageMask mask;
    for (unsigned i = 0; i < words_.size(); ++i) mask.words_[i] = ~words_[i];
    return mask;
  }
  constexpr bool operator==(const PageMask&) const = default;

  // Page i is bit i % 64 of word i / 64.
  constexpr const auto& words() const { return words_; }

  // The first run of set pages at or after `from`. Its count is 0 if there is none.
  constexpr PageRun next_run(unsigned from) const {
    const unsigned first = next(from, true);
    if (first >= pages_per_block) return {static_cast<unsigned>(pages_per_block), 0};
    return {first, next(first, false) - first};
  }
  // The run of set pages that contains `page`. Requires: `page` is set.
  constexpr PageRun run_around(unsigned page) const {
    unsigned first = page;
    while (first > 0 && test(first - 1)) --first;
    return {first, next(page, false) - first};
  }

 private:
  // The bits of `run` in word number `word`.
  static constexpr std::uint64_t bits(PageRun run, unsigned word) {
    const unsigned low = run.first > word * 64 ? run.first - word * 64 : 0;
    const unsigned high = run.end() < (word + 1) * 64 ? run.end() - word * 64 : 64;
    if (low >= high) return 0;
    const std::uint64_t below_high =
        high == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << high) - 1;
    return below_high & (~std::uint64_t{0} << low);
  }
  // The first page at or after `from` whose bit is `value`; 512 if there is none.
  constexpr unsigned next(unsigned from, bool value) const {
    unsigned page = from;
    while (page < pages_per_block) {
      const std::uint64_t word = value ? words_[page / 64] : ~words_[page / 64];
      const std::uint64_t rest = word >> (page % 64);
      if (rest != 0) return page + static_cast<unsigned>(std::countr_zero(rest));
      page = (page / 64 + 1) * 64;
    }
    return pages_per_block;
  }

  std::array<std::uint64_t, pages_per_block / 64> words_{};
};

// The runs of set pages of a mask, lowest first, for a range-based for. Holds a copy of the mask,
// so the loop may change the original.
class PageRuns {
 public:
  struct End {};
  class Iterator {
   public:
    constexpr Iterator(const PageMask& mask, PageRun run) : mask_(&mask), run_(run) {}
    constexpr PageRun operator*() const { return run_; }
    constexpr Iterator& operator++() {
      run_ = mask_->next_run(run_.end());
      return *this;
    }
    constexpr bool operator!=(End) const { return run_.count != 0; }

   private:
    const PageMask* mask_;
    PageRun run_;
  };

  constexpr explicit PageRuns(const PageMask& mask) : mask_(mask) {}
  constexpr Iterator begin() const { return {mask_, mask_.next_run(0)}; }
  constexpr End end() const { return {}; }

 private:
  PageMask mask_;
};

constexpr PageRuns runs_of(const PageMask& mask) {
  return PageRuns(mask);
}

}  // namespace wherry::impl
