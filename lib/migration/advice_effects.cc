#include "migration/advice_effects.h"

#include <bit>
#include <chrono>
#include <thread>

#include "base/patience.h"
#include "migration/at_rest.h"

namespace wherry::impl {
namespace {

constexpr int apply_limit_ms = 1000;
constexpr auto take_back_pause = std::chrono::microseconds(100);

}  // namespace

AdviceMap::Segment AdviceEffects::advice_at(PageIndex page) const {
  AdviceMap::Segment segment = advice_.at(page);
  if (copies_forbidden_.load()) segment.value.read_mostly = false;
  return segment;
}

AdviceMap::Segment AdviceEffects::take_segment(PageSpan& left) const {
  AdviceMap::Segment segment = advice_at(left.first);
  segment.span = intersect(segment.span, left);
  left = {segment.span.end(), left.end() - segment.span.end()};
  return segment;
}

PageMask AdviceEffects::enter_shown(const LockedBlock& block, const PageMask& pages, Processor p) {
  // Pages in flight are mapped when their transfer has completed.
  PageMask missing = pages - block.state.at(p).mapped - block.state.in_flight();
  if (missing.none()) return missing;
  if (missing.count() == pages_per_block && engine_.entries().enter_whole(block, p)) return {};
  const PageMask still = missing - block.state.switching(p);
  for (int i = 0; i < engine_.processors(); ++i) {
    const PageMask shown =
        still & block.state.viewed(p, Processor{i}) & block.state.at(Processor{i}).resident;
    // A page that cannot be mapped now faults at the next access.
    for (const PageRun run : runs_of(shown)) (void)engine_.map(block, run, p);
    missing -= shown;
  }
  return missing;
}

AdviceEffects::Shown AdviceEffects::show(const LockedBlock& block, const PageMask& pages,
                                         Processor p) {
  const PageMask missing = enter_shown(block, pages, p);
  if (missing.none()) return Shown::yes;
  // A change back to p's own pool needs no more mappings, so it is requested separately: it is not
  // declined if p has too many.
  const PageMask own = missing & block.state.at(p).resident;
  const auto ask = [&](const PageMask& wanted, ViewRequests::Wish wish) {
    return wanted.none() || views_.request(p, block.index, wanted, wish);
  };
  if (!ask(own, ViewRequests::Wish::home) || !ask(missing - own, ViewRequests::Wish::see))
    return Shown::declined;
  // In a replay the view has changed already.
  if (enter_shown(block, missing, p).none()) return Shown::yes;
  return views_.is_overdue(p) ? Shown::declined : Shown::pending;
}

// A processor uses its own pool without a remote mapping. So does the host use the pools of
// coherent devices, which share its page table.
PageMask AdviceEffects::sees_others(const LockedBlock& block, Processor p) const {
  PageMask pages = block.state.foreign(p);
  for (ProcessorMask near = engine_.sharing(p) & ~p.bit(); near != 0; near &= near - 1)
    pages -= block.state.viewed(p, Processor{std::countr_zero(near)});
  return pages | block.state.switching(p);
}

bool AdviceEffects::follow(const LockedBlock& block, PageRun run) {
  if (advice_.empty()) return true;
  bool done = true;
  for (PageSpan left = block.span_of(run); !left.empty();) {
    const auto [part, advice] = take_segment(left);
    if (advice.read_mostly) continue;  // each reader has its own copy
    const PageMask pages = PageMask::of(run_in_block(block.index, part)) - block.state.absent();
    for (int i = 0; i < engine_.processors(); ++i) {
      const Processor p{i};
      // If p is the preferred location, its accesses fault and move the pages to p.
      const bool fetches = !advice.preferred.is_none() && advice.preferred.processor() == p;
      if ((advice.accessed_by & p.bit()) == 0 || fetches || engine_.table_of(p) != p) continue;
      if (show(block, pages, p) == Shown::pending) done = false;
    }
  }
  return done;
}

bool AdviceEffects::end_temporary_pin(const LockedBlock& block, const PageMask& pages) {
  bool all_home = true;
  for (const PageRun run : runs_of(pages)) {
    for (PageSpan left = block.span_of(run); !left.empty();) {
      const auto [part, advice] = take_segment(left);
      const PageRun here = run_in_block(block.index, part);
      for (int i = 0; i < engine_.processors(); ++i) {
        const Processor p{i};
        if ((advice.accessed_by & p.bit()) != 0) continue;
        (void)send_home(block, here, p);
        all_home = all_home && (PageMask::of(here) & sees_others(block, p)).none();
      }
    }
  }
  return all_home;
}

void AdviceEffects::settle_on_host(const LockedBlock& block, PageRun run) {
  const Advice advice = advice_.at(block.span_of(run).first).value;
  if (advice.preferred.kind != Location::Kind::host_node || advice.pinned) return;
  const PageMask pages = PageMask::of(run) & block.state.at(Processor::host()).resident;
  for (const PageRun part : runs_of(pages))
    engine_.at(Processor::host()).file.move_to_node(block.span_of(part), advice.preferred.id);
}

void AdviceEffects::collapse(const LockedBlock& block, PageRun run) {
  for (PageSpan left = block.span_of(run); !left.empty();) {
    const auto [span, advice] = take_segment(left);
    const PageRun part = run_in_block(block.index, span);
    if (!advice.preferred.is_none())
      engine_.collapse(block, part, advice.preferred.processor(), MoveCause::advice);
    for (int i = 0; i < engine_.processors(); ++i)
      engine_.collapse(block, part, Processor{i}, MoveCause::advice);
  }
}

bool AdviceEffects::send_home(const LockedBlock& block, PageRun run, Processor p) {
  const PageMask pages = PageMask::of(run);
  views_.withdraw(p, block.index, pages);
  const PageMask away = pages & sees_others(block, p);
  return !away.none() && views_.request(p, block.index, away, ViewRequests::Wish::home);
}

bool AdviceEffects::send_all_home(const LockedBlock& block, PageRun run) {
  bool pending = false;
  for (int i = 0; i < engine_.processors(); ++i) pending |= send_home(block, run, Processor{i});
  return pending;
}

void AdviceEffects::released(const LockedBlock& block, PageRun run) {
  for (int i = 0; i < engine_.processors(); ++i) {
    const Processor p{i};
    views_.withdraw(p, block.index, PageMask::of(run));
    const PageMask away = PageMask::of(run) & block.state.foreign(p);
    // When the request is carried out, the addresses may belong to a new allocation whose pages p
    // maps from other pools. Wish::tidy does not affect those.
    if (!away.none()) (void)views_.request(p, block.index, away, ViewRequests::Wish::tidy);
  }
}

bool AdviceEffects::take_back(std::span<const PageSpan> spans, Processor p) {
  for (Patience patience(apply_limit_ms * std::uint64_t{1'000'000});; patience.note_wait()) {
    bool sees_some = false;
    for (const PageSpan span : spans) {
      blocks_.for_each_used(block_of(span.first), block_of(span.end() - 1).next(),
                            [&](BlockIndex index, Block& state) {
                              const LockedBlock block(index, state);
                              const PageRun run = run_in_block(index, span);
                              (void)send_home(block, run, p);
                              sees_some |= !(PageMask::of(run) & sees_others(block, p)).none();
                            });
    }
    if (!sees_some) return true;
    if (patience.is_over() || views_.is_overdue(p)) return false;
    views_.wait_until_done(p, apply_limit_ms);
    // Pause: the request may have been declined, and the next one would be declined at once, too.
    std::this_thread::sleep_for(take_back_pause);
  }
}

bool AdviceEffects::apply(PageSpan pages, const AdviceChange& change) {
  using Kind = AdviceChange::Kind;
  bool pending = false;
  const auto visit = [&](BlockIndex index, Block& state) {
    const PageRun run = run_in_block(index, pages);
    // If read-mostly advice ends, a duplication that is in flight must end first. So must other
    // transfers of the block, because copies may be parts of one huge page. With other advice,
    // transfers follow it when they complete.
    const PageRun resting =
        change.kind == Kind::unset_read_mostly ? PageRun{0, pages_per_block} : PageRun{};
    lock_at_rest(engine_.transfers(), index, state, resting);
    const LockedBlock block(index, state, std::adopt_lock);
    switch (change.kind) {
      case Kind::set_read_mostly:
        // A processor that maps the pages from another pool must fault to get its copy.
        pending |= send_all_home(block, run);
        break;
      case Kind::set_preferred:
        // The preferred processor must fault, so that the pages move to it.
        pending |= send_home(block, run, change.location.processor());
        break;
      case Kind::unset_read_mostly:
        collapse(block, run);
        [[fallthrough]];
      case Kind::unset_preferred:
      case Kind::set_accessed_by:
        pending |= !follow(block, run);
        break;
      // Nothing requires the mappings any more. They stay until something else removes them.
      case Kind::unset_accessed_by:
      case Kind::pinned:
      case Kind::unpinned:
        break;
    }
  };
  blocks_.for_each_used(block_of(pages.first), block_of(pages.end() - 1).next(), visit);
  return pending;
}

void AdviceEffects::wait_for_views() {
  views_.wait_until_done(apply_limit_ms);
}

void AdviceEffects::forbid_copies() {
  copies_forbidden_.store(true);
  constexpr PageRun all{0, pages_per_block};
  blocks_.for_each_used([&](BlockIndex index, Block& state) {
    lock_at_rest(engine_.transfers(), index, state, all);
    const LockedBlock block(index, state, std::adopt_lock);
    collapse(block, all);
    (void)follow(block, all);
  });
}

void AdviceEffects::permit_copies() {
  copies_forbidden_.store(false);
  bool pending = false;
  // A processor that maps read-mostly pages from another pool must fault to get its copy.
  blocks_.for_each_used([&](BlockIndex index, Block& state) {
    const LockedBlock block(index, state);
    for (PageSpan left = block_span(index); !left.empty();) {
      const auto [part, advice] = take_segment(left);
      if (advice.read_mostly) pending |= send_all_home(block, run_in_block(block.index, part));
    }
  });
  if (pending) views_.wait_until_done(apply_limit_ms);
}

}  // namespace wherry::impl
