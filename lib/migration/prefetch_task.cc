#include "migration/prefetch_task.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace wherry::impl {
namespace {

// After so many aborted transfers the pages go one region at a time, which shows the cause.
constexpr int failures_max = 3;
// How long a task waits for other operations: transfers, view changes, and pages that are reserved
// for faults.
constexpr std::uint64_t wait_limit_ns = 1'000'000'000;

}  // namespace

Copiers::TaskState PrefetchTask::advance(Copiers::AnyTransfer& begun) {
  std::uint64_t pages_needed = 0;
  State state = State::waits;
  {
    const LockedBlock block(block_, parts_.blocks.at(block_));
    state = advance_locked(block, pages_needed);
  }
  if (state == State::transfers) begun = transfer_;
  if (state != State::waits) return state;
  if (pages_needed != 0) return reserve(pages_needed);
  if (wants_view_ && !std::exchange(has_view_, true)) {
    parts_.effects.show_on_host(block_, PageMask::of(run()));
    return State::runnable;
  }
  // A task that waits for other operations on its pages gives reserved pages back, because it
  // cannot use them now. (A task that waits for space keeps its place in the pool's line.)
  reservation_.release();
  return wait();
}

Copiers::TaskState PrefetchTask::advance_locked(const LockedBlock& block,
                                                std::uint64_t& pages_needed) {
  const auto allocation = parts_.address_space.find(range_.pages.offset());
  if (!allocation || allocation->id != range_.allocation) return State::done;
  if (kind_ == PrefetchRequest::Kind::read_ahead) return read_ahead(block);
  if (kind_ != PrefetchRequest::Kind::prefetch && !discarded_) return discard(block);

  PageTransfer next;
  switch (choose(block, next)) {
    case State::done:
      return map_arrived(block);
    case State::runnable:
      break;
    default:
      return State::waits;
  }
  if (!reservation_.try_grow(parts_.engine.at(to()).capacity, next.span.count)) {
    pages_needed = next.span.count;
    return State::waits;
  }
  // Noted before the first page arrives, so that the background evictor spares the new pages.
  parts_.evictor.note_round(to(), epoch_);
  const bool is_short = next.span.count < limits_.transfer_pages_min;
  return is_short || failures_ >= failures_max ? transfer_now(block, next)
                                               : begin_transfer(block, next);
}

// A block that cannot come as a whole at once is left alone, because its use is only expected.
Copiers::TaskState PrefetchTask::read_ahead(const LockedBlock& block) {
  PageTransfer next;
  const bool is_whole = choose(block, next) == State::runnable &&
                        next.kind == PageTransfer::Kind::move && next.span.count == pages_per_block;
  const AdviceMap::Segment advice = parts_.effects.advice_at(range_.pages.first);
  if (!is_whole || advice.value != Advice{} || failures_ != 0 ||
      !reservation_.try_grow(parts_.engine.at(to()).capacity, pages_per_block))
    return State::done;
  next.cause = MoveCause::fault;
  return begin_transfer(block, next) == State::transfers ? State::transfers : State::done;
}

Copiers::TaskState PrefetchTask::choose(const LockedBlock& block, PageTransfer& next) const {
  const PageMask wanted = PageMask::of(run()) - had_turn_;
  const ProcessorMask near = parts_.engine.sharing(to()) & ~to().bit();
  const PageMask stays = (parts_.effects.pinned(block_) - block.state.absent()) |
                         parts_.engine.shown_copies(block, to());
  const PageMask missing = wanted - block.state.at(to()).resident - stays;
  const PageMask free = missing - block.state.in_flight();
  const PageRun first = free.next_run(0);
  if (first.count == 0) return missing.none() ? State::done : State::waits;

  next = {.kind = PageTransfer::Kind::create, .to = to(), .cause = MoveCause::prefetch};
  const ProcessorMask residents = block.state.residents(first.first);
  PageMask alike = free;
  if (residents == 0) {
    alike &= block.state.absent();
  } else {
    const AdviceMap::Segment advice = parts_.effects.advice_at(span_of(block_, first).first);
    alike &= PageMask::of(run_in_block(block_, advice.span));
    next.from = Processor{std::countr_zero(residents)};
    alike &= block.state.at(next.from).resident;
    // A page that has copies gets one more.
    const bool is_copied = advice.value.read_mostly && (residents & near) == 0;
    next.kind = is_copied || std::popcount(residents) > 1 ? PageTransfer::Kind::copy
                                                          : PageTransfer::Kind::move;
    if (next.kind == PageTransfer::Kind::move) alike -= block.state.resident_beside(next.from);
  }
  PageRun run = alike.run_around(first.first);
  run.count = std::min(run.count, pages_max_);
  next.span = span_of(block_, run);
  return State::runnable;
}

Copiers::TaskState PrefetchTask::begin_transfer(const LockedBlock& block,
                                                const PageTransfer& next) {
  transfer_ = next;
  const OpStatus begun = parts_.engine.begin_transfer(block, transfer_);
  if (begun == OpStatus::ok) return State::transfers;
  return note_refusal(transfer_.run(), begun) ? State::runnable : State::waits;
}

void PrefetchTask::complete_transfer(const TransferResult& outcome) {
  const LockedBlock block(block_, parts_.blocks.at(block_));
  const PageRun run = transfer_.run();
  if (outcome.status == OpStatus::ok) {
    const bool is_ahead = kind_ == PrefetchRequest::Kind::read_ahead;
    const OpStatus completed = parts_.engine.complete_transfer(
        block, transfer_, outcome, reservation_, is_ahead ? Entry::none : Entry::at_home);
    if (completed != OpStatus::ok) {
      note_refusal(run, completed);
    } else {
      note_arrival(block, run);
      // Before Linux 6.4, pages that cannot be mapped write-protected are removed again. Then each
      // region must be brought and mapped in one call.
      if (!(PageMask::of(run) - block.state.at(to()).resident).none()) failures_ = failures_max;
    }
  } else {
    parts_.engine.abort_transfer(block, transfer_);
    ++failures_;
  }
  reservation_ = Reservation();
}

void PrefetchTask::cancel_transfer() {
  complete_transfer({0, OpStatus::no_memory, false});
  failures_ = failures_max;
}

// For runs that are too short for a transfer. Brings one region at a time, so that faults on the
// block do not wait long for its lock.
Copiers::TaskState PrefetchTask::transfer_now(const LockedBlock& block, PageTransfer next) {
  next.span.count = std::min<std::uint64_t>(next.span.count, pages_per_region);
  const PageRun run = next.run();
  const auto bring = [&](Entry entry) REQUIRES(block.state.lock) {
    switch (next.kind) {
      case PageTransfer::Kind::create:
        return parts_.engine.populate(block, run, next.to, reservation_, entry, next.cause);
      case PageTransfer::Kind::copy:
        return parts_.engine.duplicate(block, run, next.from, next.to, reservation_, entry,
                                       next.cause);
      case PageTransfer::Kind::move:
        break;
    }
    return parts_.engine.migrate(block, run, next.from, next.to, reservation_, next.cause, entry);
  };
  OpResult result = bring(Entry::at_home);
  // The pool outlives the device's process.
  if (result.status == OpStatus::process_gone) result = bring(Entry::none);
  count(parts_.engine.at(next.to).counters.prefetched, result.bytes / page_size);
  if (result.bytes != 0)
    note_arrival(block, {run.first, static_cast<unsigned>(result.bytes / page_size)});
  switch (result.status) {
    case OpStatus::ok:
      return State::runnable;
    case OpStatus::no_memory:
      return give_up();
    case OpStatus::held:
      note_refusal(run, result.status);
      return State::runnable;
    default:
      return result.bytes != 0 ? State::runnable : State::waits;
  }
}

Copiers::TaskState PrefetchTask::discard(const LockedBlock& block) {
  PageMask pages = PageMask::of(run_in_block(block_, range_.whole));
  if (!(pages & block.state.in_flight()).none()) return State::waits;
  pages -= parts_.effects.pinned(block_);
  // Pages that are at the destination already stay there as they are.
  const bool stays = kind_ == PrefetchRequest::Kind::discard_and_prefetch;
  if (stays) pages -= block.state.at(to()).resident - block.state.resident_beside(to());
  PageMask left;
  for (const PageRun run : runs_of(pages - block.state.absent()))
    left |= parts_.engine.release(block, run, IfHeld::leave);
  // Try again while other pages of the block are in flight. Pages that stay for another reason
  // (pinned neighbours are held) keep their contents, on which the program must not rely.
  if (!left.none() && !block.state.in_flight().none()) return State::waits;
  discarded_ = true;
  return stays ? State::runnable : State::done;
}

Copiers::TaskState PrefetchTask::map_arrived(const LockedBlock& block) {
  const PageMask pages = PageMask::of(run());
  const Processor table = parts_.engine.table_of(to());
  // This thread changes the host's view itself, but later, without the block's lock.
  wants_view_ =
      table.is_host() && !has_view_ && !parts_.effects.enter_shown(block, pages, table).none();
  if (wants_view_ || parts_.effects.show(block, pages, table) == AdviceEffects::Shown::pending)
    return State::waits;
  if (!parts_.effects.follow(block, run())) return State::waits;
  // If the host has several nodes, a prefetch to one of them moves the pages to that node.
  if (limits_.host_has_nodes && range_.to.kind == Location::Kind::host_node) {
    ProcessorMemory& memory = parts_.engine.at(Processor::host());
    const PageMask there = (pages & block.state.at(Processor::host()).resident) -
                           block.state.in_flight() - parts_.effects.pinned(block_);
    for (const PageRun part : runs_of(there))
      memory.file.move_to_node(span_of(block_, part), range_.to.id);
  }
  return State::done;
}

Copiers::TaskState PrefetchTask::reserve(std::uint64_t pages) {
  const ReservationRequest request{to(), pages, range_.pages.first, epoch_};
  switch (parts_.evictor.reserve(request, reservation_)) {
    case OpStatus::ok:
      return State::runnable;
    case OpStatus::incomplete:
      return wait();
    default:
      // Fewer pages may fit.
      pages_max_ = static_cast<unsigned>(pages / 2);
      return pages_max_ == 0 ? give_up() : State::runnable;
  }
}

Copiers::TaskState PrefetchTask::wait() {
  if (!patience_) patience_.emplace(wait_limit_ns, AtLimit::goes_on);
  patience_->note_wait();
  return patience_->is_over() ? State::done : State::waits;
}

Copiers::TaskState PrefetchTask::give_up() {
  stuck_ = true;
  return State::done;
}

// Held pages are left where they are.
bool PrefetchTask::note_refusal(PageRun run, OpStatus status) {
  if (status != OpStatus::held) return false;
  had_turn_ |= PageMask::of(run);
  return true;
}

void PrefetchTask::note_arrival(const LockedBlock& block, PageRun run) {
  had_turn_ |= PageMask::of(run) & block.state.at(to()).resident;
  // Later prefetches of the same stream do not evict the block before it is used.
  if (!to().is_host()) block.state.prefetched_in = epoch_;
}

}  // namespace wherry::impl
