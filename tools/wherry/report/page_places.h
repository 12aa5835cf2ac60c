// Where each page of a trace is at the time of the event that was applied last: as the events say,
// which need not be all that happened (a trace may begin late, or lack events). Takes 4 bytes for
// each page that the program has used. Not thread-safe.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>

#include "base/processor.h"
#include "trace/event.h"

namespace wherry::report {

struct PageState {
  std::uint16_t places = 0;  // the processors that hold the page, one bit each
  std::uint16_t came = 0;    // those to which it came from another, since it was allocated

  bool operator==(const PageState&) const = default;
};

class PagePlaces {
 public:
  // `blocks_max`: only so many blocks of 512 pages are followed, so that a trace that claims to use
  // all addresses does not exhaust memory. The default stands for 512 GiB.
  explicit PagePlaces(std::uint64_t page_bytes, std::size_t blocks_max = std::size_t{1} << 18)
      : page_bytes_(page_bytes), blocks_max_(blocks_max) {}

  // Applies what the event did to its pages, and calls changed(address, before, after) for each
  // page that is elsewhere afterwards, or came to a processor for the first time.
  template <typename Changed>
  void apply(const impl::TraceEvent& event, const Changed& changed);
  // The state is 0 if no event concerned the page.
  PageState at(std::uint64_t address);

 private:
  static constexpr std::size_t block_pages = 512;
  // More than any event has: events concern a block or a managed variable.
  static constexpr std::uint64_t event_pages_max = std::uint64_t{1} << 18;
  using Block = std::array<PageState, block_pages>;

  // Null if no page of the block is known.
  Block* find(std::uint64_t number);
  // Null if there are too many blocks.
  Block* find_or_create(std::uint64_t number);
  static PageState after(const impl::TraceEvent& event, PageState before);
  // Whether the event can change where pages are.
  static bool moves(const impl::TraceEvent& event);

  const std::uint64_t page_bytes_;
  const std::size_t blocks_max_;
  std::map<std::uint64_t, std::unique_ptr<Block>> blocks_;  // by address / bytes of a block
  std::uint64_t last_number_ = UINT64_MAX;
  Block* last_ = nullptr;
};

template <typename Changed>
void PagePlaces::apply(const impl::TraceEvent& event, const Changed& changed) {
  if (!moves(event) || event.bytes == 0) return;
  const bool removes = event.kind == impl::EventKind::free;
  std::uint64_t page = event.address / page_bytes_;
  const std::uint64_t pages = (event.bytes - 1) / page_bytes_ + 1;
  const std::uint64_t last = page - 1 + (removes ? pages : std::min(pages, event_pages_max));
  while (page <= last) {
    const std::uint64_t number = page / block_pages;
    Block* block = removes ? find(number) : find_or_create(number);
    if (block == nullptr) {
      const auto next = blocks_.upper_bound(number);
      if (next == blocks_.end()) return;
      page = next->first * block_pages;
      continue;
    }
    for (; page <= last && page / block_pages == number; ++page) {
      PageState& state = (*block)[page % block_pages];
      const PageState before = state;
      state = after(event, before);
      if (state != before) changed(page * page_bytes_, before, state);
    }
  }
}

}  // namespace wherry::report
