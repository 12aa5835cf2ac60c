#include "migration/page_books.h"

namespace wherry::impl {

PageBooks::PageBooks(std::span<ProcessorMemory* const> processors, const Policy* policy,
                     BlockActivity* activity)
    : count_(static_cast<int>(processors.size())), policy_(policy), activity_(activity) {
  for (std::size_t i = 0; i < processors.size(); ++i)
    pools_[i] = std::make_unique<Pool>(*processors[i]);
}

void PageBooks::created(const LockedBlock& block, PageRun run, Processor p) {
  const bool held = !block.state.at(p).resident.none();
  block.state.evicted_from &= ~p.bit();
  block.state.populated(p, run);
  count(at(p).counters.populated, run.count);
  note_arrival(block, run, p, held);
}

ProcessorMask PageBooks::moved(const LockedBlock& block, PageRun run, Processor from, Processor to,
                               MoveCause cause, std::uint64_t now_ns) {
  const bool held_source = !block.state.at(from).resident.none();
  const bool held_target = !block.state.at(to).resident.none();
  give_back(from, run.count);
  block.state.moved(from, to, run);
  const ProcessorMask thrashing = tell_policy(block, {run, to, cause, /*is_copy=*/false, now_ns});
  block.state.evicted_from &= ~to.bit();
  note_departure(block, from, held_source, cause);
  note_arrival(block, run, to, held_target);
  Counters& source = at(from).counters;
  Counters& target = at(to).counters;
  count(source.migrated_out, run.count);
  count(target.migrated_in, run.count);
  count(target.bytes_copied, run.count * page_size);
  if (cause == MoveCause::eviction) count(source.evicted, run.count);
  note_activity(block.index, run.count, cause);
  return thrashing;
}

ProcessorMask PageBooks::copied(const LockedBlock& block, PageRun run, Processor to,
                                MoveCause cause, std::uint64_t now_ns) {
  const bool held = !block.state.at(to).resident.none();
  block.state.evicted_from &= ~to.bit();
  block.state.duplicated(to, run);
  const ProcessorMask thrashing = tell_policy(block, {run, to, cause, /*is_copy=*/true, now_ns});
  Counters& counters = at(to).counters;
  count(counters.duplicated, run.count);
  count(counters.bytes_copied, run.count * page_size);
  note_activity(block.index, run.count, cause);
  note_arrival(block, run, to, held);
  return thrashing;
}

void PageBooks::dropped(const LockedBlock& block, const PageMask& pages, Processor p,
                        MoveCause cause) {
  if (pages.none()) return;
  for (const PageRun run : runs_of(pages)) block.state.dropped(p, run);
  give_back(p, pages.count());
  note_departure(block, p, true, cause);
  if (cause != MoveCause::eviction) return;
  count(at(p).counters.evicted, pages.count());
  note_activity(block.index, pages.count(), cause);
}

void PageBooks::released(const LockedBlock& block, PageRun run) {
  const PageMask pages = PageMask::of(run);
  std::array<bool, max_processors> held_before{};
  for (int i = 0; i < count_; ++i) {
    const PageMask& resident = block.state.at(Processor{i}).resident;
    held_before[static_cast<std::size_t>(i)] = !resident.none();
    if (const unsigned left = (pages & resident).count()) give_back(Processor{i}, left);
  }
  block.state.released(run);
  if (block.state.history && policy_ != nullptr) policy_->on_release(run, *block.state.history);
  for (int i = 0; i < count_; ++i)
    note_departure(block, Processor{i}, held_before[static_cast<std::size_t>(i)],
                   MoveCause::release);
  if (block.state.absent() != ~PageMask{}) return;
  block.state.evicted_from = block.state.to_enter_whole = 0;
  block.state.history = nullptr;
}

void PageBooks::accessed(const LockedBlock& block, Processor owner) {
  if (owner.is_host()) return;
  resident_blocks(owner).accessed(block.index);
  block.state.prefetched_in = 0;
}

void PageBooks::note_activity(BlockIndex block, std::uint64_t pages, MoveCause cause) const {
  if (activity_ == nullptr) return;
  BlockActivity& its = activity_[block.value];
  count(cause == MoveCause::eviction ? its.evicted : its.arrived, pages);
}

ProcessorMask PageBooks::tell_policy(const LockedBlock& block, const Arrival& arrival) {
  if (!needs_time()) return 0;
  const ProcessorMask thrashing = policy_->on_arrival(arrival, block.state.history);
  if (thrashing != 0) count(at(arrival.to).counters.thrashing_detected);
  return thrashing;
}

void PageBooks::note_arrival(const LockedBlock& block, PageRun run, Processor p, bool held_before) {
  if (p.is_host()) return;
  resident_blocks(p).set_last_arrival(block.span_of(run).first);
  if (held_before)
    resident_blocks(p).accessed(block.index);
  else
    resident_blocks(p).came(block.index);
}

void PageBooks::note_departure(const LockedBlock& block, Processor p, bool held_before,
                               MoveCause cause) {
  if (p.is_host() || !held_before || !block.state.at(p).resident.none()) return;
  block.state.prefetched_in = 0;
  resident_blocks(p).left(block.index, cause == MoveCause::eviction
                                           ? Replacement::LeftBy::evicted
                                           : Replacement::LeftBy::otherwise);
}

}  // namespace wherry::impl
