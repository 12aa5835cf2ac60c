// Which pages of a pool may share a folio (os/memory/page_frames.h) with other pages, as far as the
// library knows: a folio larger than a page is created where the library writes to the file, where
// it has Linux create or make a huge page, and where Linux merges pages in the background
// (SparsePoolFile::folios()). In doubt the answer is "may share".
//
// A folio of less than 64 KiB is treated as 64 KiB. There is one word for each block. A thread may
// change the bits of pages that it may change.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/page.h"
#include "base/page_mask.h"
#include "os/memory/mapping.h"

namespace wherry::impl {

class FolioMap {
 public:
  // `bytes`: the size of the pool's file.
  explicit FolioMap(std::size_t bytes)
      : words_(Mapping::zeroed(
            round_up(bytes / block_size * sizeof(std::uint64_t) + page_size, page_size))) {}

  // Notes that these pages may be one folio from now on. Requires: they are whole regions of 64 KiB
  // of one block, which were absent, or which Linux has merged.
  void created(PageSpan pages) {
    const PageRun run = run_in(pages);
    const std::uint64_t large = regions(run);
    word_of(pages).fetch_or(large | (large & ~first_region(run)) << joined_shift,
                            std::memory_order_relaxed);
  }
  // Notes that none of these pages shares a folio with another page any more, or that they are
  // absent.
  void separated(PageSpan pages) {
    const PageRun run = run_in(pages);
    const std::atomic_ref<std::uint64_t> word = word_of(pages);
    if (word.load(std::memory_order_relaxed) == 0) return;
    const unsigned first = (run.first + pages_per_region - 1) / pages_per_region;
    const unsigned end = run.end() / pages_per_region;
    if (first >= end) return;
    const std::uint64_t whole = mask(first, end);
    // The region directly behind these pages no longer continues one of their folios.
    const std::uint64_t joined = mask(first, end < regions_per_block ? end + 1 : end);
    word.fetch_and(~(whole | joined << joined_shift), std::memory_order_relaxed);
  }
  // Whether some of the pages may share a folio with pages that are not among them.
  bool may_share(PageSpan pages) const {
    const std::uint64_t word = word_of(pages).load(std::memory_order_relaxed);
    if (word == 0) return false;
    const PageRun run = run_in(pages);
    return may_continue(word, run.first) || may_continue(word, run.end());
  }
  // Returns the pages, and those with which they may share folios.
  PageSpan around(PageSpan pages) const {
    const std::uint64_t word = word_of(pages).load(std::memory_order_relaxed);
    const PageRun run = run_in(pages);
    unsigned first = run.first;
    if (may_continue(word, first)) {
      unsigned region = first / pages_per_region;
      while ((word >> (joined_shift + region)) & 1) --region;
      first = region * pages_per_region;
    }
    unsigned end = run.end();
    if (may_continue(word, end)) {
      unsigned region = end / pages_per_region + (end % pages_per_region != 0 ? 1 : 0);
      while (region < regions_per_block && ((word >> (joined_shift + region)) & 1)) ++region;
      end = region * pages_per_region;
    }
    return span_of(block_of(pages.first), {first, end - first});
  }

 private:
  static constexpr unsigned regions_per_block = pages_per_block / pages_per_region;
  static constexpr unsigned joined_shift = 32;
  static_assert(regions_per_block == 32);

  static PageRun run_in(PageSpan pages) { return run_in_block(block_of(pages.first), pages); }
  static constexpr std::uint64_t mask(unsigned first, unsigned end) {
    return ((std::uint64_t{1} << end) - 1) & ~((std::uint64_t{1} << first) - 1);
  }
  static constexpr std::uint64_t regions(PageRun run) {
    return mask(run.first / pages_per_region,
                (run.end() + pages_per_region - 1) / pages_per_region);
  }
  static constexpr std::uint64_t first_region(PageRun run) {
    return std::uint64_t{1} << run.first / pages_per_region;
  }
  // Whether the page may belong to the same folio as the page before it.
  static constexpr bool may_continue(std::uint64_t word, unsigned page) {
    if (page == 0 || page == pages_per_block) return false;
    const unsigned region = page / pages_per_region;
    const unsigned bit = page % pages_per_region == 0 ? joined_shift + region : region;
    return (word >> bit) & 1;
  }
  std::atomic_ref<std::uint64_t> word_of(PageSpan pages) const {
    auto* const words = reinterpret_cast<std::uint64_t*>(words_.data());
    return std::atomic_ref(words[block_of(pages.first).value]);
  }

  // Bit r: the pages of region r may belong to folios of several pages. Bit 32 + r: the first of
  // them may belong to the same folio as the last page of region r - 1.
  const Mapping words_;
};

}  // namespace wherry::impl
