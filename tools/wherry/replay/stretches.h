// What a replay knows of addresses: which pages are allocated, whose they are, and what the program
// has advised. Each page's stretch is remembered with its block, since most faults ask for the one
// that was looked up last there.
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

// A part of a block that is of one allocation, with the same advice.
struct Stretch {
  impl::PageRun run;
  impl::Advice advice;
  std::optional<impl::Processor> owner;  // of a device's own memory
};

class Stretches {
 public:
  // `blocks`: by number, which 2 MiB of addresses each is. Pages are numbered by address here.
  explicit Stretches(std::span<const std::uint64_t> blocks)
      : blocks_(blocks), known_(blocks.size()) {}

  void allocate(impl::PageSpan pages, std::optional<impl::Processor> owner);
  // Returns the allocation that begins there, whose advice is forgotten; nothing: there is none.
  struct Freed {
    impl::PageSpan pages;
    std::optional<impl::Processor> owner;
  };
  std::optional<Freed> free(std::uint64_t first_page);
  void advise(impl::PageSpan pages, const impl::AdviceChange& change);

  // A page that no allocation of the trace covers is of a stretch as long as can be: recording may
  // have begun later.
  const Stretch& at(std::uint32_t block, unsigned page);
  bool advises() const { return !advice_.empty(); }
  impl::PageMask pinned(std::uint32_t block) const { return advice_.pinned(blocks_[block]); }

 private:
  struct Allocation {
    std::uint64_t end = 0;
    std::optional<impl::Processor> owner;
  };
  struct Known {
    Stretch stretch;
    std::uint32_t version = 0;
  };

  std::span<const std::uint64_t> blocks_;
  std::vector<Known> known_;                         // by block
  std::uint32_t version_ = 1;                        // of what is known
  std::map<std::uint64_t, Allocation> allocations_;  // by first page; they do not overlap
  impl::AdviceMap advice_;
};

}  // namespace wherry::replay
