// Machine: what the program itself does with its memory.
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
  const std::uint64_t first = event.address / impl::page_size;
  // A trace may contain any numbers: cut pages beyond the last address off.
  const std::uint64_t most = ~std::uint64_t{0} / impl::page_size - first;
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
  engine_.begin(now_ns);
  const PageSpan pages = pages_of(event);
  switch (event.kind) {
    case EventKind::allocation:
      if (pages.empty()) break;
      if (event.destination >= 0) {
        engine_.reserve(Processor{event.destination}, pages.count);
        stretches_.allocate(pages, Processor{event.destination});
      } else {
        stretches_.allocate(pages, std::nullopt);
      }
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
      for_each_block(pages, [this](std::uint32_t number, PageRun run) {
        const LockedBlock block({number}, engine_.block(number));
        engine_.release(block, run);
      });
      break;
    default:  // populates and migrations that the library performed for the program
      if (event.destination < 0) break;
      for_each_block(pages, [&](std::uint32_t number, PageRun run) {
        bring_all(number, run, Processor{event.destination}, event.cause);
      });
  }
  return now_ns + engine_.cost_ns();
}

void Machine::free(std::uint64_t first_page) {
  const auto freed = stretches_.free(first_page);
  if (!freed) return;
  if (freed->owner) {
    engine_.give_back(*freed->owner, freed->pages.count);
    return;
  }
  for_each_block(freed->pages, [this](std::uint32_t number, PageRun run) {
    const LockedBlock block({number}, engine_.block(number));
    engine_.release(block, run);
  });
}

void Machine::advise(const TraceEvent& event) {
  const PageSpan pages = pages_of(event);
  if (pages.empty()) return;
  const std::optional<AdviceChange> change = change_of(event);
  if (change) stretches_.advise(pages, *change);
  for_each_block(pages, [&](std::uint32_t number, PageRun run) {
    if (change)
      apply_advice(number, run, *change);
    else
      bring_all(number, run, location_of(event).processor(), MoveCause::prefetch);
  });
}

void Machine::apply_advice(std::uint32_t number, PageRun run, const AdviceChange& change) {
  using Kind = AdviceChange::Kind;
  const LockedBlock block({number}, engine_.block(number));
  const PageMask pages = PageMask::of(run);
  switch (change.kind) {
    case Kind::set_read_mostly:
      for (int i = 0; i < engine_.processors(); ++i) engine_.send_home(block, pages, Processor{i});
      break;
    case Kind::set_preferred:
      engine_.send_home(block, pages, change.location.processor());
      break;
    case Kind::unset_read_mostly:
      for (int i = 0; i < engine_.processors(); ++i) engine_.collapse(block, run, Processor{i});
      [[fallthrough]];
    case Kind::unset_preferred:
    case Kind::set_accessed_by:
      follow(block, run);
      break;
    default:
      break;
  }
}

void Machine::bring_all(std::uint32_t number, PageRun run, Processor to, MoveCause cause) {
  Block& state = engine_.block(number);
  const auto missing = [&]() REQUIRES(state.lock) {
    PageMask pages = PageMask::of(run) - state.at(to).resident;
    if (stretches_.advises()) pages -= stretches_.pinned(number) - state.absent();
    return pages;
  };
  std::uint64_t needed = 0;
  {
    const impl::LockGuard guard(state.lock);
    // A device's own memory does not move.
    if (stretches_.at(number, run.first).owner) return;
    needed = missing().count();
  }
  // If there is no space, the pages stay where they are.
  if (!engine_.evict_for(to, needed)) return;
  PageMask left;
  {
    const impl::LockGuard guard(state.lock);
    left = missing();
  }
  if (cause == MoveCause::prefetch)
    engine_.add_cost(costs_.prefetch_page_ns * static_cast<double>(left.count()));
  const LockedBlock block({number}, state);
  for (PageRun next = left.next_run(0); next.count != 0; next = left.next_run(0)) {
    const impl::ProcessorMask residents = block.state.residents(next.first);
    const Processor from{residents == 0 ? 0 : std::countr_zero(residents)};
    const bool copy =
        stretches_.at(number, next.first).advice.read_mostly || std::popcount(residents) > 1;
    PageMask alike = left & (residents == 0 ? block.state.absent() : block.state.at(from).resident);
    if (residents != 0 && !copy) alike -= block.state.resident_beside(from);
    const PageRun part = alike.run_around(next.first);
    if (residents == 0)
      engine_.populate(block, part, to);
    else if (copy)
      engine_.duplicate(block, part, from, to, cause);
    else
      engine_.migrate(block, part, from, to, cause);
    left -= PageMask::of(part);
  }
  engine_.show(block, PageMask::of(run), to);
  follow(block, run);
}

}  // namespace wherry::replay
