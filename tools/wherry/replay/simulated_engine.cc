#include "replay/simulated_engine.h"

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

void SimulatedEngine::FreeBlocks::operator()(std::byte* storage) const {
  for (std::size_t i = 0; i < count; ++i)
    reinterpret_cast<impl::Block*>(storage + i * stride)->~Block();
  ::operator delete[](storage, block_alignment);
}

SimulatedEngine::SimulatedEngine(const MachineSetting& setting, const CostModel& costs,
                                 const impl::Policy& policy, const Stretches& stretches)
    : costs_(costs),
      stretches_(stretches),
      processors_(setting.processors),
      stride_(impl::round_up(Block::bytes_for(setting.processors), 64)),
      storage_(make_blocks(setting.blocks.size(), stride_, setting.processors),
               FreeBlocks{setting.blocks.size(), stride_}),
      arrivals_ns_(setting.blocks.size()) {
  std::vector<impl::PoolLedger*> ledgers;
  for (std::size_t i = 0; i < static_cast<std::size_t>(processors_); ++i) {
    Pool& its = *pools_.emplace_back(std::make_unique<Pool>());
    ledgers.push_back(&its);
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
  page_books_.emplace(ledgers, &policy);
}

std::uint64_t SimulatedEngine::arrival_ns(const LockedBlock& block) {
  if (!page_books_->needs_time()) return 0;
  std::uint64_t& latest = arrivals_ns_[block.index.value];
  latest = std::max(latest, now_ns_ + cost_ns());
  return latest;
}

void SimulatedEngine::populate(const LockedBlock& block, PageRun run, Processor p) {
  pool(p).used += run.count;
  page_books_->created(block, run, p);
  if (block.state.is_home(p, run)) block.state.mapped(p, run, true);
}

void SimulatedEngine::migrate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                              MoveCause cause) {
  pool(to).used += run.count;
  (void)page_books_->moved(block, run, from, to, cause, arrival_ns(block));
  ++counts_.migrations;
  counts_.migrated_pages += run.count;
  // Evicted pages are not expected to be used soon, and are not entered.
  if (cause != MoveCause::eviction && block.state.is_home(to, run))
    block.state.mapped(to, run, true);
}

void SimulatedEngine::duplicate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                                MoveCause cause) {
  protect(block, run, from);
  pool(to).used += run.count;
  (void)page_books_->copied(block, run, to, cause, arrival_ns(block));
  counts_.duplicated_pages += run.count;
  if (block.state.is_home(to, run)) block.state.mapped(to, run, false);
}

void SimulatedEngine::protect(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors_; ++i) {
    const Processor p{i};
    for (const PageRun part : impl::runs_of(wanted & block.state.mapped_from(p, owner)))
      block.state.write_protected(p, part);
  }
}

void SimulatedEngine::allow_writes(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors_; ++i) {
    const Processor p{i};
    const PageMask closed =
        wanted & block.state.mapped_from(p, owner) & block.state.at(p).write_protected;
    for (const PageRun part : impl::runs_of(closed)) block.state.writable(p, part);
  }
}

void SimulatedEngine::collapse(const LockedBlock& block, PageRun run, Processor keeper) {
  const PageMask kept = PageMask::of(run) & block.state.at(keeper).resident;
  const PageMask several = kept & block.state.resident_beside(keeper);
  if (!several.none()) cost_ns_ += costs_.collapse_ns;
  for (int i = 0; i < processors_; ++i) {
    const Processor p{i};
    if (p != keeper)
      page_books_->dropped(block, several & block.state.at(p).resident, p, MoveCause::fault);
  }
  for (const PageRun part : impl::runs_of(kept)) allow_writes(block, part, keeper);
}

void SimulatedEngine::release(const LockedBlock& block, PageRun run) {
  page_books_->released(block, run);
  for (int i = 0; i < processors_; ++i) send_home(block, PageMask::of(run), Processor{i});
}

void SimulatedEngine::map(const LockedBlock& block, const PageMask& pages, Processor p) {
  if (pages.none()) return;  // most often all pages were mapped when they came
  for (int i = 0; i < processors_; ++i) {
    const Processor owner{i};
    const PageMask seen = pages & block.state.viewed(p, owner) & block.state.at(owner).resident;
    if (seen.none()) continue;
    const PageMask fresh = seen - block.state.at(p).mapped;
    if (owner != p) counts_.mapped_pages += fresh.count();
    const PageMask several = seen & block.state.resident_beside(owner);
    for (const PageRun run : impl::runs_of(seen - several)) block.state.mapped(p, run, true);
    for (const PageRun run : impl::runs_of(several)) block.state.mapped(p, run, false);
  }
}

void SimulatedEngine::show(const LockedBlock& block, const PageMask& pages, Processor p) {
  PageMask missing = pages - block.state.at(p).mapped - block.state.absent();
  PageMask shown;
  for (int i = 0; i < processors_; ++i)
    shown |= missing & block.state.viewed(p, Processor{i}) & block.state.at(Processor{i}).resident;
  map(block, shown, p);
  missing -= shown;
  if (missing.none()) return;
  cost_ns_ += costs_.remote_map.of(missing.count());
  // p's own copies first, then those of any pool.
  for (int i = -1; i < processors_; ++i) {
    const Processor owner = i < 0 ? p : Processor{i};
    const PageMask there = missing & block.state.at(owner).resident;
    for (const PageRun run : impl::runs_of(there)) block.state.switched(p, run, owner);
    map(block, there, p);
    missing -= there;
  }
}

void SimulatedEngine::send_home(const LockedBlock& block, const PageMask& pages, Processor p) {
  for (const PageRun run : impl::runs_of(pages & block.state.foreign(p)))
    block.state.switched(p, run, p);
}

// ---- pools

void SimulatedEngine::Pool::arrived(BlockIndex block, std::uint64_t, bool is_first) {
  if (is_first)
    replacement->came(block.value);
  else
    replacement->accessed(block.value);
}

void SimulatedEngine::Pool::emptied(BlockIndex block, impl::Replacement::LeftBy how) {
  replacement->left(block.value, how);
}

void SimulatedEngine::Pool::accessed(BlockIndex block) {
  replacement->accessed(block.value);
}

void SimulatedEngine::note_hit(std::uint32_t number, Processor owner) {
  auto& replacement = pool(owner).replacement;
  if (replacement && replacement->is_sampled(number)) replacement->accessed(number);
}

bool SimulatedEngine::evict_for(Processor p, std::uint64_t pages) {
  if (pages > pool(p).capacity) return false;
  while (!has_space(p, pages))
    if (!evict_one(p)) return false;
  return true;
}

void SimulatedEngine::keep_free(Processor p) {
  Pool& its = pool(p);
  if (free_pages(p) >= (its.relieving ? its.high : its.low)) {
    its.relieving = false;
    return;
  }
  // One block at a time: the block that came last would be the next to leave, and by then it has
  // come as a whole.
  if (now_ns_ < its.evicting_until_ns) return;
  const double cost = cost_ns_;
  cost_ns_ = 0;
  its.relieving = evict_one(p);
  if (its.relieving) (void)its.replacement->sample();
  its.evicting_until_ns = now_ns_ + cost_ns();
  cost_ns_ = cost;
}

bool SimulatedEngine::evict_one(Processor p) {
  auto& replacement = pool(p).replacement;
  if (!replacement) return false;
  // Twice: the queue of blocks on trial and that of kept blocks take turns.
  for (std::uint64_t left = 2 * replacement->size(); left > 0; --left) {
    const auto victim = replacement->victim();
    if (!victim) return false;
    if (evict({*victim}, p)) return true;
    replacement->passed_over(*victim);
  }
  return false;
}

bool SimulatedEngine::evict(BlockIndex index, Processor p) {
  const auto number = static_cast<std::uint32_t>(index.value);
  const LockedBlock block(index, this->block(number));
  PageMask leaving = block.state.at(p).resident;
  if (stretches_.advises()) leaving -= stretches_.pinned(number);
  const PageMask copies = leaving & block.state.resident_beside(p);
  if (leaving.none() || !has_space(Processor::host(), (leaving - copies).count())) return false;
  cost_ns_ += costs_.evict_page_ns * leaving.count();
  ++counts_.evictions;
  page_books_->dropped(block, copies, p, MoveCause::eviction);
  // As the evictor does: from the first short run on, a piece at a time.
  unsigned at_once = impl::pages_per_block;
  for (const PageRun run : impl::runs_of(leaving - copies)) {
    if (run.count < impl::usual_transfer_pages_min) at_once = impl::eviction_piece_pages;
    for (unsigned first = run.first; first < run.end(); first += at_once)
      migrate(block, {first, std::min(at_once, run.end() - first)}, p, Processor::host(),
              MoveCause::eviction);
  }
  if (impl::Replacement::leaves_as_one(leaving)) block.state.evicted_from |= p.bit();
  return true;
}

}  // namespace wherry::replay
