#include "pages/memory_pool_space.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "base/check.h"
#include "base/page.h"

namespace wherry::impl {

void MemoryPoolSpace::enlist(Ranges::iterator range) {
  const auto& [base, what] = *range;
  (what.state == State::free ? free_ : leaving_[what.stream]).emplace(what.bytes, base);
}

void MemoryPoolSpace::delist(Ranges::iterator range) {
  const auto& [base, what] = *range;
  if (what.state == State::free) {
    free_.erase({what.bytes, base});
    return;
  }
  const auto of_stream = leaving_.find(what.stream);
  of_stream->second.erase({what.bytes, base});
  if (of_stream->second.empty()) leaving_.erase(of_stream);
}

bool MemoryPoolSpace::are_alike(const Range& one, Ranges::iterator next) const {
  return one.state == next->second.state && one.stream == next->second.stream &&
         !slabs_.contains(next->first);
}

void MemoryPoolSpace::settle(Ranges::iterator range) {
  const auto absorb = [&](Ranges::iterator into, Ranges::iterator next) {
    into->second.bytes += next->second.bytes;
    into->second.used += next->second.used;
    into->second.number = std::max(into->second.number, next->second.number);
    ranges_.erase(next);
  };
  if (const auto next = std::next(range); next != ranges_.end() && are_alike(range->second, next)) {
    delist(next);
    absorb(range, next);
  }
  if (range != ranges_.begin() && are_alike(std::prev(range)->second, range)) {
    const auto previous = std::prev(range);
    delist(previous);
    absorb(previous, range);
    range = previous;
  }
  enlist(range);
}

void MemoryPoolSpace::add(Slab slab) {
  slabs_.emplace(slab.base, slab.bytes);
  enlist(ranges_.emplace(slab.base, Range{slab.bytes, 0, State::free, 0, 0}).first);
  reserved_.set(reserved_.now + slab.bytes);
}

std::optional<MemoryPoolSpace::Slab> MemoryPoolSpace::take_free_slab(
    std::size_t at_most, const std::function<bool(const Slab&)>& admits) {
  for (auto slab = slabs_.rbegin(); slab != slabs_.rend(); ++slab) {
    const auto [base, bytes] = *slab;
    const auto range = ranges_.find(base);
    if (bytes > at_most || range->second.state != State::free || range->second.bytes != bytes ||
        !admits({base, bytes}))
      continue;
    delist(range);
    ranges_.erase(range);
    slabs_.erase(base);
    reserved_.set(reserved_.now - bytes);
    return Slab{base, bytes};
  }
  return std::nullopt;
}

void MemoryPoolSpace::make_live(Ranges::iterator range, std::size_t bytes) {
  delist(range);
  const Range before = range->second;
  const std::size_t whole = round_up(bytes, page_size);
  const std::size_t used = round_up(bytes, used_unit);
  range->second = {whole, used, State::live, 0, 0};
  Range rest = before;
  rest.bytes -= whole;
  rest.used -= std::min(rest.used, whole);
  if (rest.bytes > 0) enlist(ranges_.emplace(range->first + whole, rest).first);
  used_.set(used_.now + used + rest.used - before.used);
}

std::optional<std::uintptr_t> MemoryPoolSpace::take(const decltype(free_)& list,
                                                    std::size_t bytes) {
  const auto fit = list.lower_bound({round_up(bytes, page_size), 0});
  if (fit == list.end()) return std::nullopt;
  const std::uintptr_t base = fit->second;
  make_live(ranges_.find(base), bytes);
  return base;
}

std::optional<std::uintptr_t> MemoryPoolSpace::allocate_own(std::size_t bytes,
                                                            std::uint64_t stream) {
  const auto own = leaving_.find(stream);
  return own == leaving_.end() ? std::nullopt : take(own->second, bytes);
}

std::optional<std::uintptr_t> MemoryPoolSpace::allocate(std::size_t bytes, std::uint64_t stream) {
  if (const auto base = allocate_own(bytes, stream)) return base;
  return take(free_, bytes);
}

std::optional<MemoryPoolSpace::Leaving> MemoryPoolSpace::find_leaving(
    std::size_t bytes, const std::function<bool(const Leaving&)>& admits) const {
  std::optional<Leaving> best;
  std::size_t shortest = 0;
  for (const auto& [stream, list] : leaving_) {
    for (auto fit = list.lower_bound({round_up(bytes, page_size), 0});
         fit != list.end() && (!best || fit->first < shortest); ++fit) {
      const Range& range = ranges_.at(fit->second);
      const Leaving leaving{fit->second, range.stream, range.number};
      if (!admits(leaving)) continue;
      best = leaving;
      shortest = fit->first;
    }
  }
  return best;
}

void MemoryPoolSpace::allocate_leaving(std::uintptr_t base, std::size_t bytes) {
  make_live(ranges_.find(base), bytes);
}

void MemoryPoolSpace::free(std::uintptr_t base) {
  const auto range = ranges_.find(base);
  WHERRY_CHECK(range != ranges_.end() && range->second.state == State::live,
               "{:#x} is not allocated from its pool", base);
  used_.set(used_.now - range->second.used);
  range->second = {range->second.bytes, 0, State::free, 0, 0};
  settle(range);
}

std::uint64_t MemoryPoolSpace::free_in_order(std::uintptr_t base, std::uint64_t stream) {
  const auto range = ranges_.find(base);
  WHERRY_CHECK(range != ranges_.end() && range->second.state == State::live,
               "{:#x} is not allocated from its pool", base);
  range->second = {range->second.bytes, range->second.used, State::leaving, stream, ++last_number_};
  settle(range);
  return last_number_;
}

void MemoryPoolSpace::reached(std::uint64_t stream, std::uint64_t number) {
  const auto list = leaving_.find(stream);
  if (list == leaving_.end()) return;
  std::vector<std::uintptr_t> gone;
  for (const auto& [bytes, base] : list->second)
    if (ranges_.at(base).number <= number) gone.push_back(base);
  for (const std::uintptr_t base : gone) {
    const auto range = ranges_.find(base);
    delist(range);
    used_.set(used_.now - range->second.used);
    range->second = {range->second.bytes, 0, State::free, 0, 0};
    settle(range);
  }
}

MemoryPoolSpace::Slab MemoryPoolSpace::slab_of(std::uintptr_t address) const {
  const auto slab = std::prev(slabs_.upper_bound(address));
  return {slab->first, slab->second};
}

}  // namespace wherry::impl
