// A replay's data about addresses: allocated pages, their owners, and the program's advice. The
// last stretch looked up is cached for each block, because most faults ask for the same stretch
// again.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/page.h"
#include "base/page_mask.h"
#include "pages/advice.h"

namespace wherry::replay {

// A part of a block that belongs to one allocation and has the same advice.
struct Stretch {
  impl::PageRun run;
  impl::Advice advice;
  std::optional<impl::Processor> owner;  // set for a device's own memory
  std::uint64_t allocation = 0;          // its number; 0 if the trace has none
};

class Stretches {
 public:
  // `blocks`: the address / 2 MiB of each block, by number. Allocations are by address.
  explicit Stretches(std::span<const std::uint64_t> blocks)
      : blocks_(blocks), known_(blocks.size()) {}

  void allocate(impl::PageSpan pages, std::optional<impl::Processor> owner);
  // Returns the allocation that begins at this page; nullopt if there is none.
  struct Freed {
    impl::PageSpan pages;
    std::optional<impl::Processor> owner;
  };
  std::optional<Freed> free(impl::PageIndex first_page);
  // Record advice for pages of a block, and remove all of their advice.
  void advise(std::uint32_t block, impl::PageRun run, const impl::AdviceChange& change);
  void forget(std::uint32_t block, impl::PageRun run);

  // A page without an allocation in the trace gets the longest possible stretch: recording may have
  // begun after the allocation.
  const Stretch& at(std::uint32_t block, unsigned page);
  // The advice for page numbers of the replay, in which blocks are numbered without gaps.
  const impl::AdviceMap& advice() const { return advice_; }

 private:
  struct Allocation {
    impl::PageIndex end;
    std::optional<impl::Processor> owner;
    std::uint64_t number;
  };
  struct Known {
    Stretch stretch;
    std::uint32_t version = 0;
  };

  std::span<const std::uint64_t> blocks_;
  std::vector<Known> known_;                           // by block number
  std::uint32_t version_ = 1;                          // changes with every update
  std::uint64_t last_allocation_ = 0;                  // its number
  std::map<impl::PageIndex, Allocation> allocations_;  // by first page; they do not overlap
  impl::AdviceMap advice_;
};

}  // namespace wherry::replay
