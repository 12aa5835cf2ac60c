#include "migration/evictor.h"

#include "base/clock.h"

namespace wherry::impl {
namespace {

// Others may take what is freed; who loses that often lets them go first.
constexpr int evictions_max = 64;

// What is moved under one hold of a block's lock: a fault on another page of the block waits for no more.
constexpr unsigned piece_pages = pages_per_region;

}  // namespace

OpStatus Evictor::make_room(const RoomRequest& request, Room& room) {
  Capacity& capacity = engine_.at(request.at).capacity;
  if (request.pages > capacity.pages()) return OpStatus::absent;
  for (int evicted = 0; evicted < evictions_max; ++evicted) {
    if (room.try_grow(capacity, request.pages)) return OpStatus::ok;
    if (request.at.is_host()) return OpStatus::no_memory;
    const OpStatus status = evict_one(request);
    if (status == OpStatus::no_memory) return status;
    // Nothing is there: everything is spoken for by faults in flight, whose pages are about to come.
    if (status == OpStatus::absent)
      return engine_.held_by(request.at).size() == 0 ? OpStatus::incomplete : OpStatus::absent;
    if (status != OpStatus::ok) return OpStatus::incomplete;
  }
  return OpStatus::incomplete;
}

OpStatus Evictor::evict_one(const RoomRequest& request) {
  HeldBlocks& held = engine_.held_by(request.at);
  bool another_time = false;
  // Twice: those on trial and those that are kept come in turn.
  for (std::uint64_t left = 2 * held.size(); left > 0; --left) {
    const auto number = held.victim();
    if (!number) break;
    Verdict verdict = Verdict::yes;
    const OpStatus status = evict_block(*number, request, verdict);
    if (verdict == Verdict::yes) return status;
    another_time = another_time || verdict == Verdict::not_now;
    held.passed_over(*number);
  }
  return another_time ? OpStatus::incomplete : OpStatus::absent;
}

Evictor::Verdict Evictor::may_evict(const Block& block, std::uint64_t number,
                                    const RoomRequest& request) const {
  if (request.spared_epoch != 0 && block.prefetched_in == request.spared_epoch) return Verdict::no;
  if (!(block.in_flight() & block.at(request.at).resident).none()) return Verdict::not_now;
  const PageMask& held = block.at(request.at).resident;
  if (!held.none() && (held - effects_.pinned(number)).none()) return Verdict::no;
  return Verdict::yes;
}

OpStatus Evictor::evict_block(std::uint64_t number, const RoomRequest& request, Verdict& verdict) {
  Block& block = blocks_.at(number);
  Eviction done;
  OpStatus status = OpStatus::ok;
  for (unsigned first = 0; first < pages_per_block && status == OpStatus::ok;
       first += piece_pages) {
    const LockGuard guard(block.lock);
    verdict = may_evict(block, number, request);
    if (verdict != Verdict::yes) break;
    status = evict_piece(block, number, {first, piece_pages}, request.at, done);
  }
  if (done.moved + done.dropped == 0) return status;
  verdict = Verdict::yes;
  done.time_ns = now_ns();
  done.block = number;
  done.for_page = request.for_page;
  done.from = request.at;
  done.background = request.background;
  log_.add(done);
  return status;
}

OpStatus Evictor::evict_piece(Block& block, std::uint64_t number, PageRun piece, Processor p,
                              Eviction& done) {
  const PageMask held = (PageMask::of(piece) & block.at(p).resident) - effects_.pinned(number);
  const PageMask copies = held & block.held_beside(p);
  for (const PageRun run : runs_of(copies))
    engine_.drop(block, number, run, p, MoveCause::eviction);
  done.dropped += copies.count();
  for (const PageRun run : runs_of(held - copies)) {
    Room room;
    if (!room.try_grow(engine_.at(Processor::host()).capacity, run.count))
      return OpStatus::no_memory;
    const OpResult result =
        engine_.migrate(block, number, run, p, Processor::host(), room, MoveCause::eviction);
    done.moved += static_cast<std::uint32_t>(result.bytes / page_size);
    // Not waited for: who accesses the pages meanwhile faults.
    (void)effects_.follow(block, number, run);
    if (!result) return result.status;
  }
  return OpStatus::ok;
}

}  // namespace wherry::impl
