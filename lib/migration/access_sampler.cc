#include "migration/access_sampler.h"

#include <algorithm>

namespace wherry::impl {

AccessSampler::AccessSampler(PageEngine& engine, BlockDirectory& blocks, PinGate& pins,
                             std::span<ViewChanger* const> changers)
    : engine_(engine), blocks_(blocks), pins_(pins) {
  std::ranges::copy(changers, changers_.begin());
}

std::optional<PageSpan> AccessSampler::choose_page(BlockIndex index, Processor p) {
  const PageMask pinned = pins_.pinned(index);
  Block& block = blocks_.at(index);
  const LockGuard guard(block.lock);
  const PageMask seen = block.at(p).resident & block.mapped_from(p, p);
  const PageMask pages = seen - pinned - block.switching(p) - block.in_flight();
  if (pages.none()) return std::nullopt;
  // Takes the first of `pages` from a random place on, or the first in the block if none follows.
  const auto from = static_cast<unsigned>(random_() % pages_per_block);
  const PageRun after = pages.next_run(from);
  const unsigned page = after.count != 0 ? after.first : pages.next_run(0).first;
  return span_of(index, {page, 1});
}

void AccessSampler::sample(Processor p, std::uint64_t count) {
  const LockGuard gate(pins_.lock);
  ResidentBlocks& resident = engine_.resident_blocks(p);
  std::array<PageSpan, ViewChanger::runs_max> pages;
  std::size_t chosen = 0;
  for (std::uint64_t left = std::min<std::uint64_t>(count, pages.size()); left > 0; --left) {
    const auto block = resident.sample();
    if (!block) break;
    if (const auto page = choose_page(*block, p))
      pages[chosen++] = *page;
    else
      resident.accessed(*block);  // accesses would not be seen, so it must not look idle
  }
  if (chosen == 0) return;
  // The page state keeps saying that the pages are mapped: a fault may map them before this
  // returns. The fault service enters the page of a fault whatever the state says.
  const std::span<const PageSpan> wanted = std::span(pages).first(chosen);
  if (changers_[static_cast<std::size_t>(p.index)]->forget_entries(wanted) == 0) return;
  for (const PageSpan& page : wanted) resident.accessed(block_of(page.first));
}

}  // namespace wherry::impl
