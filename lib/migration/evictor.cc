#include "migration/evictor.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// How many blocks one request evicts at a time. Freed pages go to older requests first; a request
// that got too few tries again later.
constexpr int evictions_max = 64;

}  // namespace

OpStatus Evictor::reserve(const ReservationRequest& request, Reservation& reservation) {
  Capacity& capacity = engine_.at(request.at).capacity;
  if (request.pages > capacity.pages()) {
    reservation.release();
    return OpStatus::absent;
  }
  // No page is evicted from the host, so no request waits there.
  if (request.at.is_host())
    return reservation.try_grow(capacity, request.pages) ? OpStatus::ok : OpStatus::no_memory;
  for (int evicted = 0; evicted < evictions_max; ++evicted) {
    if (reservation.join_line(capacity, request.pages)) return OpStatus::ok;
    const OpStatus status = evict_one(request);
    if (status == OpStatus::ok) continue;
    const bool may_come =
        status != OpStatus::no_memory && status != OpStatus::absent && status != OpStatus::held;
    // If the pool holds no block, other requests have reserved all of it except kept pages
    // (Capacity::keep), and their pages are about to come.
    const bool is_reserved = status == OpStatus::absent &&
                             engine_.resident_blocks(request.at).size() == 0 &&
                             capacity.kept() + request.pages <= capacity.pages();
    if (may_come || is_reserved) return OpStatus::incomplete;
    reservation.release();
    return status;
  }
  return OpStatus::incomplete;
}

OpStatus Evictor::evict_one(const ReservationRequest& request) {
  ResidentBlocks& blocks = engine_.resident_blocks(request.at);
  bool another_time = false;
  bool is_held = false;
  // Twice the number of blocks, because victim() offers kept blocks and blocks on trial
  // (policy/replacement.h) in turns.
  for (std::uint64_t left = 2 * blocks.size(); left > 0; --left) {
    const auto victim = blocks.victim();
    if (!victim) break;
    Verdict verdict = Verdict::yes;
    const OpStatus status = evict_block(*victim, request, verdict);
    if (verdict == Verdict::yes) return status;
    another_time = another_time || verdict == Verdict::not_now;
    is_held = is_held || verdict == Verdict::held;
    blocks.passed_over(*victim);
  }
  if (another_time) return OpStatus::incomplete;
  return is_held ? OpStatus::held : OpStatus::absent;
}

OpStatus Evictor::evict(BlockIndex block, const ReservationRequest& request) {
  Verdict verdict = Verdict::yes;
  const OpStatus status = evict_block(block, request, verdict);
  if (verdict == Verdict::yes) return status;
  if (verdict == Verdict::not_now) return OpStatus::incomplete;
  return verdict == Verdict::held ? OpStatus::held : OpStatus::absent;
}

Evictor::Verdict Evictor::may_evict(const LockedBlock& block,
                                    const ReservationRequest& request) const {
  if (request.spared_epoch != 0 && block.state.prefetched_in == request.spared_epoch)
    return Verdict::no;
  if (!(block.state.in_flight() & block.state.at(request.at).resident).none())
    return Verdict::not_now;
  const PageMask& resident = block.state.at(request.at).resident;
  if (!resident.none() && (resident - effects_.pinned(block.index)).none()) return Verdict::no;
  const PageRun first = pages_leaving(block, request.at).next_run(0);
  if (first.count != 0 && engine_.separator().is_held_now(block, first, request.at))
    return Verdict::held;
  return Verdict::yes;
}

OpStatus Evictor::evict_block(BlockIndex index, const ReservationRequest& request,
                              Verdict& verdict) {
  Block& state = blocks_.at(index);
  const std::uint64_t begun_ns = is_recorded(EventKind::eviction) ? now_ns() : 0;
  Eviction done;
  OpStatus status = OpStatus::ok;
  bool transfers = true;  // large runs are copied without the lock
  bool begun = false;
  // Each page is evicted once: a page that comes back meanwhile stays.
  for (PageMask left = ~PageMask{}; status == OpStatus::ok;) {
    Leaving leaving;
    std::uint64_t& count = leaving.transfer.span.count;
    {
      const LockedBlock block(index, state, request.waiter);
      verdict = may_evict(block, request);
      if (verdict != Verdict::yes) break;
      // evicted_from is set before the first page leaves, so that faults from then on see it.
      if (!std::exchange(begun, true) &&
          Replacement::leaves_as_one(pages_leaving(block, request.at)))
        block.state.evicted_from |= request.at.bit();
      status = begin(block, request.at, left, done, leaving);
      if (count == 0 || status != OpStatus::ok) break;
      transfers = transfers && count >= transfer_pages_min_;
      if (transfers) {
        status = engine_.begin_transfer(block, leaving.transfer);
      } else {
        count = std::min<std::uint64_t>(count, eviction_piece_pages);
        status = move_locked(block, done, leaving);
      }
    }
    // If a transfer fails, the pages go a piece at a time under the lock, which shows the cause.
    const bool in_flight = transfers && status == OpStatus::ok;
    if (in_flight) {
      const OpStatus moved = move_in_flight(index, state, request.waiter, done, leaving);
      transfers = moved == OpStatus::ok;
      if (moved == OpStatus::held) status = moved;
    }
    if (transfers || !in_flight) left -= PageMask::of(leaving.transfer.run());
  }
  if (begun && (status != OpStatus::ok || verdict != Verdict::yes)) {
    // Some pages stay.
    const LockGuard guard(state.lock);
    state.evicted_from &= ~request.at.bit();
  }
  // Held pages stay, and another block is evicted instead.
  if (status == OpStatus::held) {
    status = OpStatus::ok;
    if (done.moved + done.dropped == 0) verdict = Verdict::held;
  }
  if (done.moved + done.dropped == 0) return status;
  verdict = Verdict::yes;
  done.time_ns = now_ns();
  done.block = index;
  done.for_page = request.for_page;
  done.from = request.at;
  done.background = request.background;
  log_.add(done);
  if (begun_ns != 0) record_eviction(done, begun_ns);
  return status;
}

void Evictor::record_eviction(const Eviction& done, std::uint64_t begun_ns) const {
  const auto detail = done.background ? EvictionDetail::background : EvictionDetail::needed;
  record_event({.time_ns = begun_ns,
                .duration_ns = done.time_ns - begun_ns,
                .address = engine_.recorder().address_of(block_span(done.block).first).value_or(0),
                .bytes = (done.moved + done.dropped) * page_size,
                .value = done.dropped,
                .kind = EventKind::eviction,
                .cause = EventCause::eviction,
                .detail = code_of(detail),
                .source = index_of(done.from),
                .destination = index_of(Processor::host())});
}

PageMask Evictor::pages_leaving(const LockedBlock& block, Processor p) const {
  return block.state.at(p).resident - effects_.pinned(block.index);
}

OpStatus Evictor::begin(const LockedBlock& block, Processor p, const PageMask& left, Eviction& done,
                        Leaving& next) {
  const PageMask leaving = left & pages_leaving(block, p);
  const PageMask copies = leaving & block.state.resident_beside(p);
  for (const PageRun run : runs_of(copies))
    done.dropped += engine_.drop(block, run, p, MoveCause::eviction).count();
  PageRun run = (leaving - copies).next_run(0);
  Capacity& host = engine_.at(Processor::host()).capacity;
  if (!next.reservation.try_grow(host, run.count)) {
    run.count = std::min(run.count, eviction_piece_pages);
    if (!next.reservation.try_grow(host, run.count)) return OpStatus::no_memory;
  }
  next.transfer = {
      .span = block.span_of(run), .from = p, .to = Processor::host(), .cause = MoveCause::eviction};
  return OpStatus::ok;
}

OpStatus Evictor::move_in_flight(BlockIndex index, Block& state, FaultSlot* waiter, Eviction& done,
                                 Leaving& leaving) {
  const PageTransfer& transfer = leaving.transfer;
  auto backend = backends_.borrow();
  TransferResult outcome{0, OpStatus::no_memory, false};
  if (backend) {
    backend->begin(0, transfer);
    outcome = backend->next();
    backends_.give_back(std::move(backend));
  }
  const LockedBlock block(index, state, waiter);
  if (outcome.status != OpStatus::ok) {
    engine_.abort_transfer(block, transfer);
    return outcome.status;
  }
  // Entry::none, because evicted pages are not expected to be used soon.
  if (const OpStatus status =
          engine_.complete_transfer(block, transfer, outcome, leaving.reservation, Entry::none);
      status != OpStatus::ok)
    return status;
  done.moved += transfer.span.count;
  // The result does not matter: an access before the views have changed raises a fault.
  (void)effects_.follow(block, transfer.run());
  return OpStatus::ok;
}

OpStatus Evictor::move_locked(const LockedBlock& block, Eviction& done, Leaving& leaving) {
  const PageTransfer& transfer = leaving.transfer;
  const OpResult result = engine_.migrate(block, transfer.run(), transfer.from, transfer.to,
                                          leaving.reservation, MoveCause::eviction);
  done.moved += static_cast<std::uint32_t>(result.bytes / page_size);
  (void)effects_.follow(block, transfer.run());
  return result.status;
}

}  // namespace wherry::impl
