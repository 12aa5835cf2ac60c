#include "migration/prefetcher.h"

#include <algorithm>
#include <bit>
#include "base/patience.h"

namespace wherry::impl {
namespace {

// After so many flights that turned back the pages go one region at a time, which tells what is
// wrong.
constexpr int failures_max = 3;
// How long a step waits for others: flights, changes of views, room that faults have spoken for.
constexpr std::uint64_t step_limit_ns = 1'000'000'000;
}  // namespace

class Prefetcher::TransferTask final : public Copiers::Step {
 public:
  TransferTask(Prefetcher& prefetcher, Prefetcher::Step what)
      : step(std::move(what)), prefetcher_(prefetcher) {}

  Progress advance(Copiers::Load& load) override {
    const Progress progress = prefetcher_.advance(*this);
    if (progress == Progress::flies) load = transfer.transfer();
    return progress;
  }
  void complete_transfer(const TransferResult& outcome) override {
    prefetcher_.complete_transfer(*this, outcome);
  }
  void stay() override {
    prefetcher_.complete_transfer(*this, {0, OpStatus::no_memory, false});
    step.failures = failures_max;
  }

  Prefetcher::Step step;
  InFlightTransfer transfer;
  Reservation reservation;

 private:
  Prefetcher& prefetcher_;
};

class Prefetcher::Task final : public Copiers::Job {
 public:
  Task(Prefetcher& prefetcher, const PrefetchRequest& request, std::function<void()> done)
      : prefetcher_(prefetcher),
        kind_(request.kind),
        epoch_(request.epoch),
        done_(std::move(done)) {
    for (const PrefetchRange& range : request.ranges)
      if (const auto allocation = prefetcher.parts_.address_space.find(range.pages.offset()))
        ranges_.push_back({range, allocation->id});
  }

  std::unique_ptr<Copiers::Step> next() override;
  bool has_more() const override { return range_ < ranges_.size(); }
  void finish(Copiers::Step& of) override {
    const Prefetcher::Step& step = static_cast<TransferTask&>(of).step;
    if (step.stuck) full_ |= step.to().bit();
    open_.erase(std::ranges::find(open_, step.block));
  }
  void done() override { done_(); }

 private:
  Prefetcher& prefetcher_;
  const PrefetchRequest::Kind kind_;
  const std::uint32_t epoch_;
  const std::function<void()> done_;
  std::vector<Range> ranges_;
  std::size_t range_ = 0;         // of the next step
  BlockIndex block_;              // ... or 0: the range's first
  std::vector<BlockIndex> open_;  // blocks of the steps that were taken and are not done
  ProcessorMask full_ = 0;        // no room: nothing more is prefetched there
};

void Prefetcher::submit(const PrefetchRequest& request, std::function<void()> done) {
  parts_.copiers.submit(std::make_shared<Task>(*this, request, std::move(done)));
}

// ---- steps

std::unique_ptr<Copiers::Step> Prefetcher::Task::next() {
  while (has_more()) {
    Range range = ranges_[range_];
    if (kind_ == PrefetchRequest::Kind::prefetch && (full_ & range.to.processor().bit()) != 0) {
      ++range_;
      block_ = {};
      continue;
    }
    const PageSpan all = kind_ == PrefetchRequest::Kind::discard ? range.whole : range.pages;
    const BlockIndex block = std::max(block_, block_of(all.first));
    // Where ranges overlap they are done in their order.
    if (std::ranges::find(open_, block) != open_.end()) return nullptr;
    range.pages = intersect(all, block_span(block));
    range.whole = intersect(range.whole, block_span(block));
    block_ = block.next();
    if (block_span(block).end() >= all.end()) {
      ++range_;
      block_ = {};
    }
    if (range.pages.empty()) continue;
    open_.push_back(block);
    return std::make_unique<TransferTask>(prefetcher_,
                                          Prefetcher::Step{kind_, range, block, epoch_});
  }
  return nullptr;
}

void Prefetcher::complete_transfer(TransferTask& task, const TransferResult& outcome) {
  const LockedBlock block(task.step.block, parts_.blocks.at(task.step.block));
  if (outcome.status == OpStatus::ok) {
    parts_.engine.complete_transfer(block, task.transfer, outcome, task.reservation);
    note_arrival(task.step, block, task.transfer.run);
    // Before Linux 6.4 what cannot be mapped protected is given up again: then each region has to
    // come mapped.
    if (!(PageMask::of(task.transfer.run) - block.state.at(task.step.to()).resident).none())
      task.step.failures = failures_max;
  } else {
    parts_.engine.abort_transfer(block, task.transfer);
    ++task.step.failures;
  }
  task.reservation = Reservation();
}

// ---- one step

Prefetcher::Progress Prefetcher::advance(TransferTask& task) {
  std::uint64_t room_needed = 0;
  Progress progress = Progress::waits;
  {
    const LockedBlock block(task.step.block, parts_.blocks.at(task.step.block));
    progress = advance_locked(task, block, room_needed);
  }
  if (room_needed != 0) {
    const RoomRequest request{task.step.to(), room_needed, task.step.range.pages.first,
                              task.step.epoch};
    switch (parts_.evictor.make_room(request, task.reservation)) {
      case OpStatus::ok:
        return Progress::moves;
      case OpStatus::incomplete:
        progress = Progress::waits;
        break;
      default:
        // A part may fit.
        task.step.pages_max = static_cast<unsigned>(room_needed / 2);
        return task.step.pages_max == 0 ? give_up(task.step) : Progress::moves;
    }
  }
  if (progress != Progress::waits) return progress;
  // Its place in the pool's line stays while it waits for that; room is of no use while it waits
  // for pages.
  if (room_needed == 0) task.reservation.release();
  if (!task.step.patience) task.step.patience.emplace(step_limit_ns, AtLimit::goes_on);
  task.step.patience->note_wait();
  return task.step.patience->is_over() ? Progress::done : Progress::waits;
}

Prefetcher::Progress Prefetcher::advance_locked(TransferTask& task, const LockedBlock& block,
                                                std::uint64_t& room_needed) {
  Step& step = task.step;
  const auto allocation = parts_.address_space.find(step.range.pages.offset());
  if (!allocation || allocation->id != step.range.allocation) return Progress::done;
  if (step.kind != PrefetchRequest::Kind::prefetch && !step.discarded) return discard(step, block);

  const Need need = next_need(step, block);
  if (need.progress == Progress::done) return settle(step, block);
  if (need.progress == Progress::waits) return Progress::waits;
  const Processor to = step.to();
  if (!task.reservation.try_grow(parts_.engine.at(to).capacity, need.run.count)) {
    room_needed = need.run.count;
    return Progress::waits;
  }
  // Before anything arrives that it concerns.
  parts_.evictor.note_round(to, step.epoch);
  if (need.run.count < limits_.transfer_pages_min || step.failures >= failures_max)
    return carry_now(task, block, need);
  task.transfer = {step.block, need.run, need.kind, need.from, to, MoveCause::prefetch};
  return parts_.engine.begin_transfer(block, task.transfer) == OpStatus::ok ? Progress::flies
                                                                            : Progress::waits;
}

Prefetcher::Need Prefetcher::next_need(const Step& step, const LockedBlock& block) const {
  const PageMask wanted = PageMask::of(step.run()) - step.had_turn;
  const PageMask stays = parts_.effects.pinned(step.block) - block.state.absent();
  const PageMask missing = wanted - block.state.at(step.to()).resident - stays;
  const PageMask free = missing - block.state.in_flight();
  const PageRun first = free.next_run(0);
  if (first.count == 0) return {missing.none() ? Progress::done : Progress::waits, {}, {}, {}};

  Need need{Progress::moves, {}, PageTransfer::Kind::create, Processor::host()};
  const ProcessorMask residents = block.state.residents(first.first);
  PageMask alike = free;
  if (residents == 0) {
    alike &= block.state.absent();
  } else {
    const AdviceMap::Segment advice = parts_.effects.advice_at(span_of(step.block, first).first);
    alike &= PageMask::of(run_in_block(step.block, advice.span));
    need.from = Processor{std::countr_zero(residents)};
    alike &= block.state.at(need.from).resident;
    // A page that has copies gets one more.
    need.kind = advice.value.read_mostly || std::popcount(residents) > 1 ? PageTransfer::Kind::copy
                                                                         : PageTransfer::Kind::move;
    if (need.kind == PageTransfer::Kind::move) alike -= block.state.held_beside(need.from);
  }
  need.run = alike.run_around(first.first);
  need.run.count = std::min(need.run.count, step.pages_max);
  return need;
}

Prefetcher::Progress Prefetcher::give_up(Step& step) {
  step.stuck = true;
  return Progress::done;
}

// Pages that do not make a flight: a region at a time, so that nobody waits for the lock for long.
Prefetcher::Progress Prefetcher::carry_now(TransferTask& task, const LockedBlock& block,
                                           const Need& need) {
  const PageRun run{need.run.first,
                    std::min(need.run.count, static_cast<unsigned>(pages_per_region))};
  const Processor to = task.step.to();
  Reservation& reservation = task.reservation;
  const auto carry = [&](Entry entry) REQUIRES(block.state.lock) {
    switch (need.kind) {
      case PageTransfer::Kind::create:
        return parts_.engine.populate(block, run, to, reservation, entry, MoveCause::prefetch);
      case PageTransfer::Kind::copy:
        return parts_.engine.duplicate(block, run, need.from, to, reservation, entry,
                                       MoveCause::prefetch);
      case PageTransfer::Kind::move:
        break;
    }
    return parts_.engine.migrate(block, run, need.from, to, reservation, MoveCause::prefetch,
                                 entry);
  };
  OpResult result = carry(Entry::at_home);
  // Without a process there is a pool all the same.
  if (result.status == OpStatus::process_gone) result = carry(Entry::none);
  count(parts_.engine.at(to).counters.prefetched, result.bytes / page_size);
  if (result.bytes != 0)
    note_arrival(task.step, block, {run.first, static_cast<unsigned>(result.bytes / page_size)});
  switch (result.status) {
    case OpStatus::ok:
      return Progress::moves;
    case OpStatus::no_memory:
      return give_up(task.step);
    default:
      return result.bytes != 0 ? Progress::moves : Progress::waits;
  }
}

Prefetcher::Progress Prefetcher::discard(Step& step, const LockedBlock& block) {
  PageMask pages = PageMask::of(run_in_block(step.block, step.range.whole));
  if (!(pages & block.state.in_flight()).none()) return Progress::waits;
  pages -= parts_.effects.pinned(step.block);
  // What is at the destination already may be used as it is.
  const bool stays = step.kind == PrefetchRequest::Kind::discard_and_prefetch;
  if (stays) pages -= block.state.at(step.to()).resident - block.state.held_beside(step.to());
  for (const PageRun run : runs_of(pages - block.state.absent())) parts_.engine.release(block, run);
  step.discarded = true;
  return stays ? Progress::moves : Progress::done;
}

void Prefetcher::note_arrival(Step& step, const LockedBlock& block, PageRun run) {
  step.had_turn |= PageMask::of(run) & block.state.at(step.to()).resident;
  // TemporaryPins until it is used, as far as others that the same stream prefetches are concerned.
  if (!step.to().is_host()) block.state.prefetched_in = step.epoch;
}

Prefetcher::Progress Prefetcher::settle(const Step& step, const LockedBlock& block) {
  const PageMask pages = PageMask::of(step.run());
  if (parts_.effects.show(block, pages, step.to()) == AdviceEffects::Shown::pending)
    return Progress::waits;
  if (!parts_.effects.follow(block, step.run())) return Progress::waits;
  // Whoever prefetches to one of several nodes of the host means that one.
  if (limits_.host_has_nodes && step.range.to.kind == Location::Kind::host_node) {
    ProcessorMemory& memory = parts_.engine.at(Processor::host());
    const PageMask there = (pages & block.state.at(Processor::host()).resident) -
                           block.state.in_flight() - parts_.effects.pinned(step.block);
    for (const PageRun run : runs_of(there))
      memory.file.move_to_node(span_of(step.block, run), step.range.to.id);
  }
  return Progress::done;
}

}  // namespace wherry::impl
