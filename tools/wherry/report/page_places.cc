#include "page_places.h"

namespace wherry::report {

using impl::EventKind;
using impl::TraceEvent;

namespace {

std::uint16_t bit_of(std::int8_t processor) {
  return processor < 0 ? std::uint16_t{0} : static_cast<std::uint16_t>(1u << processor);
}

}  // namespace

bool PagePlaces::moves(const TraceEvent& event) {
  switch (event.kind) {
    case EventKind::migration:
    case EventKind::duplicate:
    case EventKind::populate:
    case EventKind::invalidate:
    case EventKind::free:
      return true;
    default:
      return false;
  }
}

PageState PagePlaces::after(const TraceEvent& event, PageState before) {
  const std::uint16_t from = bit_of(event.source), to = bit_of(event.destination);
  const auto unite = [](std::uint16_t a, std::uint16_t b) {
    return static_cast<std::uint16_t>(a | b);
  };
  switch (event.kind) {
    case EventKind::migration:
      return {unite(before.places & static_cast<std::uint16_t>(~from), to), unite(before.came, to)};
    case EventKind::duplicate:  // recording may have begun when the source held the page already
      return {unite(before.places, unite(from, to)), unite(before.came, to)};
    case EventKind::populate:
      return {unite(before.places, to), before.came};
    case EventKind::invalidate:
      return {static_cast<std::uint16_t>(before.places & ~from), before.came};
    case EventKind::free:
      return {};
    default:
      return before;
  }
}

PageState PagePlaces::at(std::uint64_t address) {
  const std::uint64_t page = address / page_bytes_;
  const Block* const block = find(page / block_pages);
  return block == nullptr ? PageState{} : (*block)[page % block_pages];
}

PagePlaces::Block* PagePlaces::find(std::uint64_t number) {
  if (number == last_number_) return last_;
  const auto found = blocks_.find(number);
  if (found == blocks_.end()) return nullptr;
  last_number_ = number;
  return last_ = found->second.get();
}

PagePlaces::Block* PagePlaces::find_or_create(std::uint64_t number) {
  if (Block* const found = find(number)) return found;
  if (blocks_.size() >= blocks_max_) return nullptr;
  last_number_ = number;
  return last_ = (blocks_[number] = std::make_unique<Block>()).get();
}

}  // namespace wherry::report
