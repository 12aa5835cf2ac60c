#include "migration/read_ahead.h"

#include <new>
#include <vector>

namespace wherry::impl {

bool ReadAhead::is_elsewhere(BlockIndex index, Processor p) const {
  Block& state = blocks_.at(index);
  if (!state.lock.try_lock()) return false;
  const LockedBlock block(index, state, std::adopt_lock);
  return block.state.absent().none() && block.state.at(p).resident.none() &&
         block.state.in_flight().none();
}

bool ReadAhead::begin(BlockIndex block) {
  std::uint64_t none = 0;
  return slot_of(block).compare_exchange_strong(none, block.value + 1);
}

void ReadAhead::end(BlockIndex block) {
  slot_of(block).store(0);
}

void ReadAhead::request(Processor p, BlockIndex block, int direction, PageSpan allocation) {
  if (copiers_.other_threads() > cpus_) return;
  const Location to = p.is_host() ? Location::host() : Location::device(p.ordinal());
  PrefetchRequest request{{}, PrefetchRequest::Kind::read_ahead, 0};
  std::vector<BlockIndex> begun;
  try {
    begun.reserve(blocks_max);
    request.ranges.reserve(blocks_max);
    for (std::uint64_t i = 1; i <= blocks_max; ++i) {
      if (direction < 0 && block.value < i) break;
      const BlockIndex next{direction < 0 ? block.value - i : block.value + i};
      const PageSpan pages = block_span(next);
      if (intersect(pages, allocation).count != pages.count) break;
      if (!is_elsewhere(next, p) || !begin(next)) continue;
      begun.push_back(next);
      request.ranges.push_back({pages, pages, to});
    }
    if (begun.empty()) return;
    prefetcher_.submit(request, [this, begun] {
      for (const BlockIndex done : begun) end(done);
    });
  } catch (const std::bad_alloc&) {
    for (const BlockIndex failed : begun) end(failed);
  }
}

}  // namespace wherry::impl
