// The part of Machine for what the program itself does with its memory.
#include <algorithm>
#include <bit>
#include <optional>

#include "replay/machine.h"

namespace wherry::replay {
namespace {

using impl::AdviceChange;
using impl::AdviceDetail;
using impl::EventKind;
using impl::PageSpan;
using impl::Processor;
using impl::TraceEvent;

PageSpan pages_of(const TraceEvent& event) {
  const impl::PageIndex first = impl::page_at_offset(event.address);
  // A trace may contain any numbers. Pages beyond the last address are left out.
  const std::uint64_t most = impl::page_at_offset(~std::uint64_t{0}) - first;
  return {first, std::min(event.bytes / impl::page_size, most)};
}

impl::Location location_of(const TraceEvent& event) {
  return event.destination > 0 ? impl::Location::device(event.destination - 1)
                               : impl::Location::host();
}

// Returns nullopt for a prefetch.
std::optional<AdviceChange> change_of(const TraceEvent& event) {
  using Kind = AdviceChange::Kind;
  const impl::Location location = location_of(event);
  if (event.kind == EventKind::pin) return AdviceChange{Kind::pinned, {}};
  if (event.kind == EventKind::unpin) return AdviceChange{Kind::unpinned, {}};
  switch (static_cast<AdviceDetail>(event.detail)) {
    case AdviceDetail::set_read_mostly:
      return AdviceChange{Kind::set_read_mostly, {}};
    case AdviceDetail::unset_read_mostly:
      return AdviceChange{Kind::unset_read_mostly, {}};
    case AdviceDetail::set_preferred_location:
      return AdviceChange{Kind::set_preferred, location};
    case AdviceDetail::unset_preferred_location:
      return AdviceChange{Kind::unset_preferred, {}};
    case AdviceDetail::set_accessed_by:
      return AdviceChange{Kind::set_accessed_by, location};
    case AdviceDetail::unset_accessed_by:
      return AdviceChange{Kind::unset_accessed_by, location};
    case AdviceDetail::prefetch:
      break;
  }
  return std::nullopt;
}

}  // namespace

template <typename Visit>
void Machine::for_each_block(PageSpan pages, const Visit& visit) {
  if (pages.empty()) return;
  const auto address_of = [this](std::uint32_t number) { return blocks_[number]; };
  auto next =
      std::ranges::lower_bound(by_address_, impl::block_of(pages.first).value, {}, address_of);
  const std::uint64_t last = impl::block_of(pages.end() - 1).value;
  for (; next != by_address_.end() && blocks_[*next] <= last; ++next)
    visit(*next, impl::run_in_block({blocks_[*next]}, pages));
}

std::uint64_t Machine::apply(const TraceEvent& event, std::uint64_t now_ns) {
  memory_.begin(now_ns);
  const PageSpan pages = pages_of(event);
  switch (event.kind) {
    case EventKind::allocation:
      if (!pages.empty()) allocate(event, pages);
      break;
    case EventKind::free:
      free(pages.first);
      break;
    case EventKind::advice:
    case EventKind::pin:
    case EventKind::unpin:
      advise(event);
      break;
    case EventKind::invalidate:
      release(pages);
      break;
    default:  // populates and migrations that the library performed for the program
      if (event.destination < 0) break;
      for_each_block(pages, [&](std::uint32_t number, PageRun run) {
        bring_all(number, run, Processor{event.destination}, event.cause);
      });
  }
  return memory_.meter().end_ns();
}

void Machine::allocate(const TraceEvent& event, PageSpan pages) {
  std::optional<Processor> owner;
  if (event.destination >= 0) {
    owner = Processor{event.destination};
    (void)memory_.reserve(*owner, pages.count, owned_[pages.first]);
  }
  stretches_.allocate(pages, owner);
}

void Machine::free(impl::PageIndex first_page) {
  const auto freed = stretches_.free(first_page);
  if (!freed) return;
  owned_.erase(first_page);
  for_each_block(freed->pages,
                 [this](std::uint32_t number, PageRun run) { stretches_.forget(number, run); });
  if (!freed->owner) release(freed->pages);
}

void Machine::release(PageSpan pages) {
  for_each_block(pages, [this](std::uint32_t number, PageRun run) {
    const LockedBlock block({number}, memory_.blocks().at({number}));
    memory_.engine().release(block, run);
    memory_.effects().released(block, run);
  });
}

void Machine::advise(const TraceEvent& event) {
  const std::optional<AdviceChange> change = change_of(event);
  for_each_block(pages_of(event), [&](std::uint32_t number, PageRun run) {
    if (!change) {
      bring_all(number, run, location_of(event).processor(), MoveCause::prefetch);
      return;
    }
    stretches_.advise(number, run, *change);
    (void)memory_.effects().apply(impl::span_of({number}, run), *change);
  });
}

void Machine::bring_all(std::uint32_t number, PageRun run, Processor to, MoveCause cause) {
  // A device's own memory does not move.
  if (stretches_.at(number, run.first).owner) return;
  impl::Capacity& capacity = memory_.engine().at(to).capacity;
  impl::Reservation reservation;
  for (std::uint64_t needed = 0;;) {
    // If there is no space, the pages stay where they are.
    if (needed != 0 && !memory_.reserve(to, needed, reservation)) return;
    const LockedBlock block({number}, memory_.blocks().at({number}));
    const PageMask missing = PageMask::of(run) - block.state.at(to).resident -
                             (memory_.effects().pinned(block.index) - block.state.absent()) -
                             memory_.engine().shown_copies(block, to);
    needed = missing.count();
    // reserve() may have evicted pages of this block.
    if (!reservation.try_grow(capacity, needed)) continue;
    if (cause == MoveCause::prefetch)
      memory_.meter().cost_ns += costs_.prefetch_page_ns * static_cast<double>(needed);
    bring(block, missing, to, cause, reservation);
    (void)memory_.effects().show(block, PageMask::of(run), memory_.engine().table_of(to));
    (void)memory_.effects().follow(block, run);
    return;
  }
}

void Machine::bring(const LockedBlock& block, PageMask left, Processor to, MoveCause cause,
                    impl::Reservation& reservation) {
  impl::PageEngine& engine = memory_.engine();
  const auto number = static_cast<std::uint32_t>(block.index.value);
  for (PageRun next = left.next_run(0); next.count != 0; next = left.next_run(0)) {
    const impl::ProcessorMask residents = block.state.residents(next.first);
    const Processor from{residents == 0 ? 0 : std::countr_zero(residents)};
    const bool is_copied = stretches_.at(number, next.first).advice.read_mostly &&
                           (residents & engine.sharing(to)) == 0;
    const bool copy = is_copied || std::popcount(residents) > 1;
    PageMask alike = left & (residents == 0 ? block.state.absent() : block.state.at(from).resident);
    if (residents != 0 && !copy) alike -= block.state.resident_beside(from);
    const PageRun part = alike.run_around(next.first);
    if (residents == 0) {
      (void)engine.populate(block, part, to, reservation);
    } else if (copy) {
      (void)engine.duplicate(block, part, from, to, reservation);
      ++duplications_;
    } else {
      (void)engine.migrate(block, part, from, to, reservation, cause);
    }
    left -= PageMask::of(part);
  }
}

}  // namespace wherry::replay
