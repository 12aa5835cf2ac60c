#include "replay/page_books.h"

#include <algorithm>
#include <bit>
#include <new>

#include "migration/background_evictor.h"

namespace wherry::replay {
namespace {

constexpr std::align_val_t block_alignment{64};

std::byte* make_blocks(std::size_t count, std::size_t stride, int processors) {
  auto* const storage = static_cast<std::byte*>(
      ::operator new[](std::max<std::size_t>(count, 1) * stride, block_alignment));
  for (std::size_t i = 0; i < count; ++i) {
    std::byte* const place = storage + i * stride;
    auto* const pages = reinterpret_cast<impl::ProcessorPages*>(place + sizeof(impl::Block));
    new (place) impl::Block(processors);
    for (int p = 0; p < processors; ++p) new (pages + p) impl::ProcessorPages;
  }
  return storage;
}

}  // namespace

void PageBooks::FreeBlocks::operator()(std::byte* storage) const {
  for (std::size_t i = 0; i < count; ++i)
    reinterpret_cast<impl::Block*>(storage + i * stride)->~Block();
  ::operator delete[](storage, block_alignment);
}

PageBooks::PageBooks(const MachineSetting& setting, const CostModel& costs,
                     const impl::Policy& policy, const Stretches& stretches)
    : costs_(costs),
      policy_(policy),
      stretches_(stretches),
      processors_(setting.processors),
      stride_(impl::round_up(Block::bytes_for(setting.processors), 64)),
      storage_(make_blocks(setting.blocks.size(), stride_, setting.processors),
               FreeBlocks{setting.blocks.size(), stride_}),
      pools_(static_cast<std::size_t>(setting.processors)),
      told_ns_(setting.blocks.size()) {
  for (std::size_t i = 0; i < pools_.size(); ++i) {
    Pool& its = pools_[i];
    if (setting.capacity_pages[i] != 0) its.capacity = setting.capacity_pages[i];
    if (i == 0) continue;
    if (setting.capacity_pages[i] != 0) {
      const auto marks = impl::Watermarks::of(its.capacity);
      its.low = marks.low;
      its.high = marks.high;
    }
    its.links.resize(setting.blocks.size());
    its.replacement.emplace(its.links);
  }
}

void PageBooks::populate(std::uint32_t number, Block& block, PageRun run, Processor p) {
  const bool held = !block.at(p).resident.none();
  pool(p).used += run.count;
  block.evicted_from &= ~p.bit();
  block.populated(p, run);
  note_arrival(number, p, held);
  if (block.is_home(p, run)) block.mapped(p, run, true);
}

void PageBooks::migrate(std::uint32_t number, Block& block, PageRun run, Processor from,
                        Processor to, MoveCause cause) {
  const bool held_from = !block.at(from).resident.none();
  const bool held_to = !block.at(to).resident.none();
  pool(to).used += run.count;
  pool(from).used -= run.count;
  block.moved(from, to, run);
  tell_policy(number, block, {run, to, cause});
  block.evicted_from &= ~to.bit();
  note_departure(number, block, from, held_from, cause);
  note_arrival(number, to, held_to);
  ++counts_.migrations;
  counts_.migrated_pages += run.count;
  // What was evicted is not expected to be used soon, and is not entered.
  if (cause != MoveCause::eviction && block.is_home(to, run)) block.mapped(to, run, true);
}

void PageBooks::duplicate(std::uint32_t number, Block& block, PageRun run, Processor from,
                          Processor to, MoveCause cause) {
  const bool held = !block.at(to).resident.none();
  protect(block, run, from);
  pool(to).used += run.count;
  block.evicted_from &= ~to.bit();
  block.duplicated(to, run);
  tell_policy(number, block, {run, to, cause, /*is_copy=*/true});
  note_arrival(number, to, held);
  counts_.duplicated_pages += run.count;
  if (block.is_home(to, run)) block.mapped(to, run, false);
}

void PageBooks::protect(Block& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors_; ++i) {
    const Processor p{i};
    for (const PageRun part : impl::runs_of(wanted & block.mapped_from(p, owner)))
      block.write_protected(p, part);
  }
}

void PageBooks::allow_writes(Block& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors_; ++i) {
    const Processor p{i};
    const PageMask closed = wanted & block.mapped_from(p, owner) & block.at(p).write_protected;
    for (const PageRun part : impl::runs_of(closed)) block.writable(p, part);
  }
}

void PageBooks::collapse(std::uint32_t number, Block& block, PageRun run, Processor keeper) {
  const PageMask kept = PageMask::of(run) & block.at(keeper).resident;
  const PageMask several = kept & block.held_beside(keeper);
  if (!several.none()) cost_ns_ += costs_.collapse_ns;
  for (int i = 0; i < processors_; ++i)
    if (i != keeper.index) drop(number, block, several, Processor{i}, MoveCause::fault);
  for (const PageRun part : impl::runs_of(kept)) allow_writes(block, part, keeper);
}

void PageBooks::drop(std::uint32_t number, Block& block, const PageMask& pages, Processor p,
                     MoveCause cause) {
  const PageMask dropped = pages & block.at(p).resident;
  if (dropped.none()) return;
  for (const PageRun part : impl::runs_of(dropped)) block.dropped(p, part);
  pool(p).used -= dropped.count();
  note_departure(number, block, p, true, cause);
}

void PageBooks::release(std::uint32_t number, Block& block, PageRun run) {
  std::array<bool, impl::max_processors> held{};
  for (int i = 0; i < processors_; ++i) {
    const PageMask& resident = block.at(Processor{i}).resident;
    held[static_cast<std::size_t>(i)] = !resident.none();
    pool(Processor{i}).used -= (PageMask::of(run) & resident).count();
  }
  block.released(run);
  if (block.history) policy_.on_release(run, *block.history);
  for (int i = 0; i < processors_; ++i) {
    note_departure(number, block, Processor{i}, held[static_cast<std::size_t>(i)],
                   MoveCause::release);
    send_home(block, PageMask::of(run), Processor{i});
  }
  if (block.absent() != ~PageMask{}) return;
  block.evicted_from = 0;
  block.history = nullptr;
}

void PageBooks::map(Block& block, const PageMask& pages, Processor p) {
  if (pages.none()) return;  // most often all has been mapped when it came
  for (int i = 0; i < processors_; ++i) {
    const Processor owner{i};
    const PageMask seen = pages & block.viewed(p, owner) & block.at(owner).resident;
    if (seen.none()) continue;
    const PageMask fresh = seen - block.at(p).mapped;
    if (owner != p) counts_.mapped_pages += fresh.count();
    const PageMask several = seen & block.held_beside(owner);
    for (const PageRun run : impl::runs_of(seen - several)) block.mapped(p, run, true);
    for (const PageRun run : impl::runs_of(several)) block.mapped(p, run, false);
  }
}

void PageBooks::show(Block& block, const PageMask& pages, Processor p) {
  PageMask missing = pages - block.at(p).mapped - block.absent();
  PageMask shown;
  for (int i = 0; i < processors_; ++i)
    shown |= missing & block.viewed(p, Processor{i}) & block.at(Processor{i}).resident;
  map(block, shown, p);
  missing -= shown;
  if (missing.none()) return;
  cost_ns_ += costs_.remote_map.of(missing.count());
  // One's own copy first, then anybody's.
  for (int i = -1; i < processors_; ++i) {
    const Processor owner = i < 0 ? p : Processor{i};
    const PageMask there = missing & block.at(owner).resident;
    for (const PageRun run : impl::runs_of(there)) block.switched(p, run, owner);
    map(block, there, p);
    missing -= there;
  }
}

void PageBooks::send_home(Block& block, const PageMask& pages, Processor p) {
  for (const PageRun run : impl::runs_of(pages & block.foreign(p))) block.switched(p, run, p);
}

void PageBooks::tell_policy(std::uint32_t number, Block& block, impl::Arrival arrival) {
  if (!policy_.remembers()) return;
  // Somebody may evict what is still on its way.
  told_ns_[number] = std::max(told_ns_[number], now_ns_ + cost_ns());
  arrival.now_ns = told_ns_[number];
  (void)policy_.on_arrival(arrival, block.history);
}

// ---- pools

void PageBooks::note_arrival(std::uint32_t number, Processor p, bool held_before) {
  auto& replacement = pool(p).replacement;
  if (!replacement) return;
  if (held_before)
    replacement->touched(number);
  else
    replacement->came(number);
}

void PageBooks::note_departure(std::uint32_t number, const Block& block, Processor p,
                               bool held_before, MoveCause cause) {
  auto& replacement = pool(p).replacement;
  if (!replacement || !held_before || !block.at(p).resident.none()) return;
  replacement->left(number, cause == MoveCause::eviction ? impl::Replacement::LeftBy::evicted
                                                         : impl::Replacement::LeftBy::otherwise);
}

void PageBooks::note_access(std::uint32_t number, Processor owner) {
  if (auto& replacement = pool(owner).replacement) replacement->touched(number);
}

void PageBooks::note_hit(std::uint32_t number, Processor owner) {
  auto& replacement = pool(owner).replacement;
  if (replacement && replacement->is_watched(number)) replacement->touched(number);
}

bool PageBooks::make_room(Processor p, std::uint64_t pages) {
  if (pages > pool(p).capacity) return false;
  while (!has_room(p, pages))
    if (!evict_one(p)) return false;
  return true;
}

void PageBooks::keep_free(Processor p) {
  Pool& its = pool(p);
  if (free_pages(p) >= (its.relieving ? its.high : its.low)) {
    its.relieving = false;
    return;
  }
  // A block at a time: what came last would be next, and has come as a whole by then.
  if (now_ns_ < its.evicting_until_ns) return;
  const double cost = cost_ns_;
  cost_ns_ = 0;
  its.relieving = evict_one(p);
  if (its.relieving) (void)its.replacement->watch();
  its.evicting_until_ns = now_ns_ + cost_ns();
  cost_ns_ = cost;
}

bool PageBooks::evict_one(Processor p) {
  auto& replacement = pool(p).replacement;
  if (!replacement) return false;
  // Twice: those on trial and those that are kept come in turn.
  for (std::uint64_t left = 2 * replacement->size(); left > 0; --left) {
    const auto victim = replacement->victim();
    if (!victim) return false;
    if (evict(static_cast<std::uint32_t>(*victim), p)) return true;
    replacement->passed_over(*victim);
  }
  return false;
}

bool PageBooks::evict(std::uint32_t number, Processor p) {
  Block& its = block(number);
  const impl::LockGuard guard(its.lock);
  PageMask leaving = its.at(p).resident;
  if (stretches_.advises()) leaving -= stretches_.pinned(number);
  const PageMask copies = leaving & its.held_beside(p);
  if (leaving.none() || !has_room(Processor::host(), (leaving - copies).count())) return false;
  cost_ns_ += costs_.evict_page_ns * leaving.count();
  ++counts_.evictions;
  drop(number, its, copies, p, MoveCause::eviction);
  // As the evictor does: from the first short run on, a piece at a time.
  unsigned at_once = impl::pages_per_block;
  for (const PageRun run : impl::runs_of(leaving - copies)) {
    if (run.count < impl::usual_transfer_pages_min) at_once = impl::eviction_piece_pages;
    for (unsigned first = run.first; first < run.end(); first += at_once)
      migrate(number, its, {first, std::min(at_once, run.end() - first)}, p, Processor::host(),
              MoveCause::eviction);
  }
  if (impl::Replacement::leaves_as_one(leaving)) its.evicted_from |= p.bit();
  return true;
}

}  // namespace wherry::replay
