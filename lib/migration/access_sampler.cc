#include "migration/access_sampler.h"

#include <algorithm>

namespace wherry::impl {

AccessSampler::AccessSampler(PageEngine& engine, BlockDirectory& blocks,
                             std::span<ViewChanger* const> changers)
    : engine_(engine), blocks_(blocks) {
  std::ranges::copy(changers, changers_.begin());
}

std::optional<std::uint64_t> AccessSampler::choose_page(std::uint64_t number, Processor p) {
  Block& block = blocks_.at(number);
  const LockGuard guard(block.lock);
  const PageMask seen = block.at(p).resident & block.mapped_from(p, p);
  const PageMask pages = seen - block.switching(p) - block.in_flight();
  if (pages.none()) return std::nullopt;
  // From a random place on, or from the start where nothing follows.
  const auto from = static_cast<unsigned>(random_() % pages_per_block);
  const PageRun after = pages.next_run(from);
  const unsigned page = after.count != 0 ? after.first : pages.next_run(0).first;
  return span_of(number, {page, 1}).first;
}

void AccessSampler::watch(Processor p, std::uint64_t count) {
  HeldBlocks& held = engine_.held_by(p);
  std::array<std::uint64_t, ViewChanger::pages_max> pages;
  std::size_t chosen = 0;
  for (std::uint64_t left = std::min<std::uint64_t>(count, pages.size()); left > 0; --left) {
    const auto number = held.watch();
    if (!number) break;
    if (const auto page = choose_page(*number, p))
      pages[chosen++] = *page;
    else
      held.touched(*number);  // nothing would be seen: not a sign that it is idle
  }
  if (chosen == 0) return;
  // The books go on saying that the pages may be mapped: they may be, again, before this returns. A
  // fault enters what it is about whatever the books say.
  const std::span<const std::uint64_t> wanted = std::span(pages).first(chosen);
  if (changers_[static_cast<std::size_t>(p.index)]->forget_entries(wanted) == 0) return;
  for (const std::uint64_t page : wanted) held.touched(block_of(page));
}

}  // namespace wherry::impl
