#include "migration/prefetcher.h"

#include <algorithm>
#include <bit>

#include "base/patience.h"

namespace wherry::impl {
namespace {

// After so many aborted transfers the pages go one region at a time, which shows the cause.
constexpr int part_failures_max = 3;
// How long a task waits for other operations: transfers, view changes, and pages that are reserved
// for faults.
constexpr std::uint64_t part_wait_limit_ns = 1'000'000'000;
// is_done() looks at requests of up to 128 MiB, which takes some ten microseconds.
constexpr std::uint64_t looked_at_max = 64 * pages_per_block;

}  // namespace

class Prefetcher::PrefetchTask final : public Copiers::Task {
 public:
  PrefetchTask(Prefetcher& prefetcher, BlockPart its_part)
      : part(std::move(its_part)), prefetcher_(prefetcher) {}

  TaskState advance(Copiers::AnyTransfer& next) override {
    const TaskState state = prefetcher_.advance(*this);
    if (state == TaskState::transfers) next = transfer.transfer();
    return state;
  }
  void complete_transfer(const TransferResult& outcome) override {
    prefetcher_.complete_transfer(*this, outcome);
  }
  void cancel_transfer() override {
    prefetcher_.complete_transfer(*this, {0, OpStatus::no_memory, false});
    part.failures = part_failures_max;
  }

  BlockPart part;
  InFlightTransfer transfer;
  Reservation reservation;

 private:
  Prefetcher& prefetcher_;
};

class Prefetcher::PrefetchJob final : public Copiers::Job {
 public:
  PrefetchJob(Prefetcher& prefetcher, const PrefetchRequest& request, std::function<void()> done)
      : prefetcher_(prefetcher),
        kind_(request.kind),
        epoch_(request.epoch),
        done_(std::move(done)) {
    for (const PrefetchRange& range : request.ranges)
      if (const auto allocation = prefetcher.parts_.address_space.find(range.pages.offset()))
        ranges_.push_back({range, allocation->id});
  }

  std::unique_ptr<Copiers::Task> next_task() override;
  bool has_more() const override { return range_ < ranges_.size(); }
  void finish(Copiers::Task& task) override {
    BlockPart& part = static_cast<PrefetchTask&>(task).part;
    if (part.stuck) full_ |= part.to().bit();
    open_.erase(std::ranges::find(open_, part.block));
  }
  void done() override { done_(); }

 private:
  void end_range() {
    ++range_;
    order_.reset();
  }

  Prefetcher& prefetcher_;
  const PrefetchRequest::Kind kind_;
  const std::uint32_t epoch_;
  const std::function<void()> done_;
  std::vector<Range> ranges_;
  std::size_t range_ = 0;              // of the next task
  std::optional<StripedOrder> order_;  // what is left of it; nullopt: it was not begun
  std::vector<BlockIndex> open_;       // blocks of the tasks that were taken and are not done
  ProcessorMask full_ = 0;             // full pools: nothing more is prefetched there
};

void Prefetcher::submit(const PrefetchRequest& request, std::function<void()> done) {
  parts_.copiers.submit(std::make_shared<PrefetchJob>(*this, request, std::move(done)));
}

bool Prefetcher::is_done(const PrefetchRequest& request) const {
  // Advice may have more processors map the pages.
  if (request.kind != PrefetchRequest::Kind::prefetch || parts_.effects.advises()) return false;
  std::uint64_t pages = 0;
  for (const PrefetchRange& range : request.ranges) {
    pages += range.pages.count;
    if (limits_.host_has_nodes && range.to.kind == Location::Kind::host_node) return false;
  }
  return pages <= looked_at_max &&
         std::ranges::all_of(request.ranges, [&](const PrefetchRange& range) {
           return is_done(range.pages, range.to.processor());
         });
}

bool Prefetcher::is_done(PageSpan pages, Processor to) const {
  for (BlockIndex index = block_of(pages.first); block_span(index).first < pages.end();
       index = index.next()) {
    const PageRun run = run_in_block(index, intersect(pages, block_span(index)));
    Block& state = parts_.blocks.at(index);
    if (!state.lock.try_lock()) return false;
    const LockedBlock block(index, state, std::adopt_lock);
    const Processor table = parts_.engine.table_of(to);
    const PageMask ready = block.state.at(to).resident & block.state.mapped_from(table, to);
    const PageMask moving = block.state.in_flight() | block.state.switching(table);
    if (!(PageMask::of(run) - (ready - moving)).none()) return false;
  }
  return true;
}

// ---- the tasks of a job

std::unique_ptr<Copiers::Task> Prefetcher::PrefetchJob::next_task() {
  while (range_ < ranges_.size()) {
    Range range = ranges_[range_];
    const PageSpan all = kind_ == PrefetchRequest::Kind::discard ? range.whole : range.pages;
    const bool is_full =
        kind_ == PrefetchRequest::Kind::prefetch && (full_ & range.to.processor().bit()) != 0;
    if (is_full || all.empty()) {
      end_range();
      continue;
    }
    if (!order_) order_ = prefetcher_.order_of(all, range.to.processor());
    const BlockIndex block = order_->front();
    // Overlapping ranges are done in their order.
    if (std::ranges::find(open_, block) != open_.end()) return nullptr;
    order_->pop();
    if (order_->empty()) end_range();
    range.pages = intersect(all, block_span(block));
    range.whole = intersect(range.whole, block_span(block));
    if (range.pages.empty()) continue;
    open_.push_back(block);
    return std::make_unique<PrefetchTask>(prefetcher_, BlockPart{kind_, range, block, epoch_});
  }
  return nullptr;
}

// Of a range that does not fit, the first blocks come.
StripedOrder Prefetcher::order_of(PageSpan pages, Processor to) const {
  const bool fits = pages.count <= parts_.engine.at(to).capacity.pages();
  return StripedOrder(fits ? limits_.stripes : Stripes(), block_of(pages.first),
                      block_of(pages.end() - 1).next());
}

void Prefetcher::complete_transfer(PrefetchTask& task, const TransferResult& outcome) {
  const LockedBlock block(task.part.block, parts_.blocks.at(task.part.block));
  if (outcome.status == OpStatus::ok) {
    const bool is_ahead = task.part.kind == PrefetchRequest::Kind::read_ahead;
    const OpStatus completed = parts_.engine.complete_transfer(
        block, task.transfer, outcome, task.reservation, is_ahead ? Entry::none : Entry::at_home);
    if (completed != OpStatus::ok) {
      note_refusal(task.part, task.transfer.run, completed);
      task.reservation = Reservation();
      return;
    }
    note_arrival(task.part, block, task.transfer.run);
    // Before Linux 6.4, pages that cannot be mapped write-protected are removed again. Then each
    // region must be brought and mapped in one call.
    if (!(PageMask::of(task.transfer.run) - block.state.at(task.part.to()).resident).none())
      task.part.failures = part_failures_max;
  } else {
    parts_.engine.abort_transfer(block, task.transfer);
    ++task.part.failures;
  }
  task.reservation = Reservation();
}

// ---- one task

Prefetcher::TaskState Prefetcher::advance(PrefetchTask& task) {
  std::uint64_t pages_needed = 0;
  TaskState state = TaskState::waits;
  {
    const LockedBlock block(task.part.block, parts_.blocks.at(task.part.block));
    state = advance_locked(task, block, pages_needed);
  }
  if (pages_needed != 0) {
    const ReservationRequest request{task.part.to(), pages_needed, task.part.range.pages.first,
                                     task.part.epoch};
    switch (parts_.evictor.reserve(request, task.reservation)) {
      case OpStatus::ok:
        return TaskState::runnable;
      case OpStatus::incomplete:
        state = TaskState::waits;
        break;
      default:
        // Fewer pages may fit.
        task.part.pages_max = static_cast<unsigned>(pages_needed / 2);
        return task.part.pages_max == 0 ? give_up(task.part) : TaskState::runnable;
    }
  }
  if (state != TaskState::waits) return state;
  if (task.part.wants_view && !std::exchange(task.part.has_view, true)) {
    parts_.effects.show_on_host(task.part.block, PageMask::of(task.part.run()));
    return TaskState::runnable;
  }
  // A task that waits for space keeps its place in the pool's line. A task that waits for other
  // operations on its pages gives reserved pages back, because it cannot use them now.
  if (pages_needed == 0) task.reservation.release();
  if (!task.part.patience) task.part.patience.emplace(part_wait_limit_ns, AtLimit::goes_on);
  task.part.patience->note_wait();
  return task.part.patience->is_over() ? TaskState::done : TaskState::waits;
}

Prefetcher::TaskState Prefetcher::advance_locked(PrefetchTask& task, const LockedBlock& block,
                                                 std::uint64_t& pages_needed) {
  BlockPart& part = task.part;
  const auto allocation = parts_.address_space.find(part.range.pages.offset());
  if (!allocation || allocation->id != part.range.allocation) return TaskState::done;
  if (part.kind == PrefetchRequest::Kind::read_ahead) return read_ahead(task, block);
  if (part.kind != PrefetchRequest::Kind::prefetch && !part.discarded) return discard(part, block);

  const Operation next = next_operation(part, block);
  if (next.state == TaskState::done) return map_arrived(part, block);
  if (next.state == TaskState::waits) return TaskState::waits;
  const Processor to = part.to();
  if (!task.reservation.try_grow(parts_.engine.at(to).capacity, next.run.count)) {
    pages_needed = next.run.count;
    return TaskState::waits;
  }
  // Before the first page of the round arrives.
  parts_.evictor.note_round(to, part.epoch);
  if (next.run.count < limits_.transfer_pages_min || part.failures >= part_failures_max)
    return transfer_now(task, block, next);
  task.transfer = {part.block, next.run, next.kind, next.from, to, MoveCause::prefetch};
  const OpStatus begun = parts_.engine.begin_transfer(block, task.transfer);
  if (begun == OpStatus::ok) return TaskState::transfers;
  return note_refusal(part, next.run, begun) ? TaskState::runnable : TaskState::waits;
}

// A block that the program uses otherwise meanwhile is left alone: it is not wanted for certain.
Prefetcher::TaskState Prefetcher::read_ahead(PrefetchTask& task, const LockedBlock& block) {
  const BlockPart& part = task.part;
  const Operation next = next_operation(part, block);
  const AdviceMap::Segment advice = parts_.effects.advice_at(part.range.pages.first);
  const bool is_wanted =
      next.state == TaskState::runnable && next.kind == PageTransfer::Kind::move &&
      next.run.count == pages_per_block && advice.value == Advice{} && part.failures == 0;
  if (!is_wanted ||
      !task.reservation.try_grow(parts_.engine.at(part.to()).capacity, pages_per_block))
    return TaskState::done;
  task.transfer = {part.block, next.run, next.kind, next.from, part.to(), MoveCause::fault};
  return parts_.engine.begin_transfer(block, task.transfer) == OpStatus::ok ? TaskState::transfers
                                                                            : TaskState::done;
}

Prefetcher::Operation Prefetcher::next_operation(const BlockPart& part,
                                                 const LockedBlock& block) const {
  const PageMask wanted = PageMask::of(part.run()) - part.had_turn;
  const ProcessorMask near = parts_.engine.sharing(part.to()) & ~part.to().bit();
  const PageMask stays = (parts_.effects.pinned(part.block) - block.state.absent()) |
                         parts_.engine.shown_copies(block, part.to());
  const PageMask missing = wanted - block.state.at(part.to()).resident - stays;
  const PageMask free = missing - block.state.in_flight();
  const PageRun first = free.next_run(0);
  if (first.count == 0) return {missing.none() ? TaskState::done : TaskState::waits, {}, {}, {}};

  Operation next{TaskState::runnable, {}, PageTransfer::Kind::create, Processor::host()};
  const ProcessorMask residents = block.state.residents(first.first);
  PageMask alike = free;
  if (residents == 0) {
    alike &= block.state.absent();
  } else {
    const AdviceMap::Segment advice = parts_.effects.advice_at(span_of(part.block, first).first);
    alike &= PageMask::of(run_in_block(part.block, advice.span));
    next.from = Processor{std::countr_zero(residents)};
    alike &= block.state.at(next.from).resident;
    // A page that has copies gets one more.
    const bool is_copied = advice.value.read_mostly && (residents & near) == 0;
    next.kind = is_copied || std::popcount(residents) > 1 ? PageTransfer::Kind::copy
                                                          : PageTransfer::Kind::move;
    if (next.kind == PageTransfer::Kind::move) alike -= block.state.resident_beside(next.from);
  }
  next.run = alike.run_around(first.first);
  next.run.count = std::min(next.run.count, part.pages_max);
  return next;
}

Prefetcher::TaskState Prefetcher::give_up(BlockPart& part) {
  part.stuck = true;
  return TaskState::done;
}

// For runs that are too short for a transfer. Brings one region at a time, so that faults on the
// block do not wait long for its lock.
Prefetcher::TaskState Prefetcher::transfer_now(PrefetchTask& task, const LockedBlock& block,
                                               const Operation& next) {
  const PageRun run{next.run.first,
                    std::min(next.run.count, static_cast<unsigned>(pages_per_region))};
  const Processor to = task.part.to();
  Reservation& reservation = task.reservation;
  const auto bring = [&](Entry entry) REQUIRES(block.state.lock) {
    switch (next.kind) {
      case PageTransfer::Kind::create:
        return parts_.engine.populate(block, run, to, reservation, entry, MoveCause::prefetch);
      case PageTransfer::Kind::copy:
        return parts_.engine.duplicate(block, run, next.from, to, reservation, entry,
                                       MoveCause::prefetch);
      case PageTransfer::Kind::move:
        break;
    }
    return parts_.engine.migrate(block, run, next.from, to, reservation, MoveCause::prefetch,
                                 entry);
  };
  OpResult result = bring(Entry::at_home);
  // The pool outlives the device's process.
  if (result.status == OpStatus::process_gone) result = bring(Entry::none);
  count(parts_.engine.at(to).counters.prefetched, result.bytes / page_size);
  if (result.bytes != 0)
    note_arrival(task.part, block, {run.first, static_cast<unsigned>(result.bytes / page_size)});
  switch (result.status) {
    case OpStatus::ok:
      return TaskState::runnable;
    case OpStatus::no_memory:
      return give_up(task.part);
    case OpStatus::held:
      note_refusal(task.part, run, result.status);
      return TaskState::runnable;
    default:
      return result.bytes != 0 ? TaskState::runnable : TaskState::waits;
  }
}

Prefetcher::TaskState Prefetcher::discard(BlockPart& part, const LockedBlock& block) {
  PageMask pages = PageMask::of(run_in_block(part.block, part.range.whole));
  if (!(pages & block.state.in_flight()).none()) return TaskState::waits;
  pages -= parts_.effects.pinned(part.block);
  // Pages that are at the destination already stay there as they are.
  const bool stays = part.kind == PrefetchRequest::Kind::discard_and_prefetch;
  if (stays) pages -= block.state.at(part.to()).resident - block.state.resident_beside(part.to());
  PageMask left;
  for (const PageRun run : runs_of(pages - block.state.absent()))
    left |= parts_.engine.release(block, run, IfHeld::leave);
  // Others of the block are in flight. Pages that stay for another reason (pinned neighbours are
  // held) keep their contents, on which the program must not rely.
  if (!left.none() && !block.state.in_flight().none()) return TaskState::waits;
  part.discarded = true;
  return stays ? TaskState::runnable : TaskState::done;
}

// Held pages are left where they are.
bool Prefetcher::note_refusal(BlockPart& part, PageRun run, OpStatus status) {
  if (status != OpStatus::held) return false;
  part.had_turn |= PageMask::of(run);
  return true;
}

void Prefetcher::note_arrival(BlockPart& part, const LockedBlock& block, PageRun run) {
  part.had_turn |= PageMask::of(run) & block.state.at(part.to()).resident;
  // Later prefetches of the same stream do not evict it before it is used.
  if (!part.to().is_host()) block.state.prefetched_in = part.epoch;
}

Prefetcher::TaskState Prefetcher::map_arrived(BlockPart& part, const LockedBlock& block) {
  const PageMask pages = PageMask::of(part.run());
  const Processor table = parts_.engine.table_of(part.to());
  // This thread changes the host's view itself, but without the block's lock.
  part.wants_view =
      table.is_host() && !part.has_view && !parts_.effects.enter_shown(block, pages, table).none();
  if (part.wants_view || parts_.effects.show(block, pages, table) == AdviceEffects::Shown::pending)
    return TaskState::waits;
  if (!parts_.effects.follow(block, part.run())) return TaskState::waits;
  // If the host has several nodes, a prefetch to one of them moves the pages to that node.
  if (limits_.host_has_nodes && part.range.to.kind == Location::Kind::host_node) {
    ProcessorMemory& memory = parts_.engine.at(Processor::host());
    const PageMask there = (pages & block.state.at(Processor::host()).resident) -
                           block.state.in_flight() - parts_.effects.pinned(part.block);
    for (const PageRun run : runs_of(there))
      memory.file.move_to_node(span_of(part.block, run), part.range.to.id);
  }
  return TaskState::done;
}

}  // namespace wherry::impl
