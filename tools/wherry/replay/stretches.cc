#include "replay/stretches.h"

#include <iterator>

namespace wherry::replay {

using impl::PageSpan;

void Stretches::allocate(PageSpan pages, std::optional<impl::Processor> owner) {
  allocations_[pages.first] = {pages.end(), owner, ++last_allocation_};
  ++version_;
}

std::optional<Stretches::Freed> Stretches::free(impl::PageIndex first_page) {
  const auto found = allocations_.find(first_page);
  if (found == allocations_.end()) return std::nullopt;
  const Freed freed{{first_page, found->second.end - first_page}, found->second.owner};
  allocations_.erase(found);
  ++version_;
  return freed;
}

void Stretches::advise(std::uint32_t block, impl::PageRun run, const impl::AdviceChange& change) {
  advice_.change(impl::span_of({block}, run), change);
  ++version_;
}

void Stretches::forget(std::uint32_t block, impl::PageRun run) {
  advice_.forget(impl::span_of({block}, run));
  ++version_;
}

const Stretch& Stretches::at(std::uint32_t block, unsigned page) {
  Known& known = known_[block];
  const impl::PageRun last = known.stretch.run;
  if (known.version == version_ && page >= last.first && page < last.end()) return known.stretch;
  known.version = version_;

  const impl::BlockIndex number{blocks_[block]};
  PageSpan span = impl::block_span(number);
  const impl::PageIndex address = span.first + page;
  known.stretch.owner.reset();
  known.stretch.allocation = 0;
  const auto next = allocations_.upper_bound(address);
  const auto before = next == allocations_.begin() ? allocations_.end() : std::prev(next);
  if (before != allocations_.end() && before->second.end > address) {
    span = impl::intersect(span, {before->first, before->second.end - before->first});
    known.stretch.owner = before->second.owner;
    known.stretch.allocation = before->second.number;
  }
  const impl::AdviceMap::Segment segment = advice_.at(impl::block_span({block}).first + page);
  known.stretch.advice = segment.value;
  const PageSpan alike = impl::span_of(number, impl::run_in_block({block}, segment.span));
  known.stretch.run = impl::run_in_block(number, impl::intersect(span, alike));
  return known.stretch;
}

}  // namespace wherry::replay
