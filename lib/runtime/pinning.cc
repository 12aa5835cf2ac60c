#include "runtime/pinning.h"

#include <bit>
#include <thread>
#include <utility>

#include "base/patience.h"
#include "runtime/block_runs.h"
#include "runtime/memory_events.h"
#include "runtime/retry.h"

namespace wherry::impl {

bool Pinning::collapse(BlockIndex index, PageRun run) {
  const LockedBlock block(index, parts_.blocks.at(index));
  // Copies may be parts of huge pages, of which other pages must not be in flight either.
  if (!block.state.in_flight().none()) return false;
  // The host's copy stays if there is one, otherwise that of the device with the lowest ordinal.
  for (int i = 0; i < parts_.pools.count(); ++i)
    parts_.engine.collapse(block, run, Processor{i}, MoveCause::advice);
  (void)parts_.effects.follow(block, run);
  return true;
}

void Pinning::separate(PageSpan pages) {
  for_each_run(pages, [&](BlockIndex index, PageRun run) {
    const LockedBlock block(index, parts_.blocks.at(index));
    for (int i = 0; i < parts_.pools.count(); ++i) {
      const Processor owner{i};
      for (const PageRun part : runs_of(PageMask::of(run) & block.state.at(owner).resident))
        (void)parts_.engine.separate(block, part, {owner, {}, MoveCause::advice, IfHeld::leave});
    }
    return true;
  });
}

bool Pinning::settle(PageSpan pages) {
  Patience patience(retry_limit_ns);
  bool fits = true;
  parts_.advice.map().for_each(pages, [&](const AdviceMap::Segment& segment) {
    for_each_run(segment.span, [&](BlockIndex block, PageRun run) {
      for (; !collapse(block, run) && !patience.is_over(); patience.note_wait())
        std::this_thread::sleep_for(retry_pause);
      return true;
    });
    const Location preferred = segment.value.preferred;
    const Processor host = Processor::host();
    const Processor p = preferred.is_none() ? host : preferred.processor();
    fits = parts_.heap.create_pages(segment.span, p) ||
           (!p.is_host() && parts_.heap.create_pages(segment.span, host));
    return fits;
  });
  return fits;
}

Pinning::Result Pinning::pin(PageSpan pages, std::vector<PageSpan>* fresh_pages) {
  // Held to the end, so that no page is created for an allocation that is freed meanwhile.
  const ReadGuard guard(parts_.advice.lock);
  if (!parts_.advice.is_managed(pages)) return Result::not_managed;
  std::vector<PageSpan> fresh;
  parts_.advice.map().for_each(pages, [&](const AdviceMap::Segment& segment) {
    if (!segment.value.pinned) fresh.push_back(segment.span);
    return true;
  });
  separate(pages);
  // Entered before settle(): from here on no fault, eviction or prefetch moves the pages.
  parts_.advice.enter_pin(pages);
  parts_.gate.wait_for_background();
  if (settle(pages)) {
    record_advice(parts_.layout, pages, {AdviceChange::Kind::pinned, {}});
    if (fresh_pages != nullptr) *fresh_pages = std::move(fresh);
    return Result::pinned;
  }
  for (const PageSpan span : fresh) parts_.advice.enter_unpin(span);
  return Result::no_space;
}

bool Pinning::unpin(PageSpan pages) {
  const ReadGuard guard(parts_.advice.lock);
  if (!parts_.advice.is_managed(pages)) return false;
  parts_.advice.enter_unpin(pages);
  record_advice(parts_.layout, pages, {AdviceChange::Kind::unpinned, {}});
  return true;
}

std::vector<Pinning::Extent> Pinning::locate(PageSpan pages) const {
  std::vector<Extent> extents;
  for (PageIndex page = pages.first; page < pages.end(); ++page) {
    Block& block = parts_.blocks.at(block_of(page));
    int owner = 0;
    {
      const LockGuard guard(block.lock);
      owner = std::countr_zero(block.residents(page_in_block(page)));
    }
    const int fd = parts_.pools.at(Processor{owner}).file().fd_at(offset_of(page));
    if (!extents.empty() && extents.back().fd == fd)
      ++extents.back().pages.count;
    else
      extents.push_back({{page, 1}, fd});
  }
  return extents;
}

}  // namespace wherry::impl
