#include "migration/page_engine.h"

#include <array>
#include <cstring>

#include "base/check.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

ProcessorMask coherent_among(std::span<ProcessorMemory* const> processors) {
  ProcessorMask mask = 0;
  for (const ProcessorMemory* const memory : processors)
    if (memory->table != memory->id) mask |= memory->id.bit();
  return mask;
}

FolioSeparator::Departure departure_of(const PageTransfer& transfer) {
  return {transfer.from, transfer.to, transfer.cause};
}

EventKind kind_of(PageTransfer::Kind kind) {
  switch (kind) {
    case PageTransfer::Kind::move:
      return EventKind::migration;
    case PageTransfer::Kind::copy:
      return EventKind::duplicate;
    case PageTransfer::Kind::create:
      break;
  }
  return EventKind::populate;
}

}  // namespace

PageEngine::PageEngine(std::span<ProcessorMemory* const> processors, const ArenaLayout* layout,
                       const Policy* policy, Clock clock, BlockActivity* activity,
                       const AdviceMap* pins, bool keeps_entries)
    : page_books_(processors, policy, activity),
      coherent_(coherent_among(processors)),
      clock_(clock),
      recorder_(layout),
      entries_(page_books_, recorder_),
      separator_(entries_, recorder_, pins, clock, keeps_entries) {}

ProcessorMask PageEngine::sharing(Processor p) const {
  const Processor table = table_of(p);
  return table.bit() | (table.is_host() ? coherent_ : 0);
}

PageMask PageEngine::shown_copies(const LockedBlock& block, Processor p) const {
  PageMask pages;
  for (ProcessorMask left = sharing(p) & ~p.bit(); left != 0; left &= left - 1) {
    const Processor other{std::countr_zero(left)};
    pages |= block.state.at(other).resident & block.state.resident_beside(other);
  }
  return pages;
}

std::uint64_t PageEngine::arrival_ns() const {
  return page_books_.needs_time() ? clock_() : 0;
}

// Runs fill_from(rest) until the whole span is in the target's pool, advancing over the pages that
// arrived. A page that is there already contradicts the page state: if it were kept, the caller
// would punch the only true copy, so it is punched and filled again. If the target's process has
// ended, nothing counts as arrived: no process is left that could use it.
template <typename Fill>
OpResult PageEngine::fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const {
  std::uint64_t done = 0;
  for (int attempt = 0; attempt < PageEntries::attempts_max; ++attempt) {
    const OpResult result = fill_from(rest_of(span, done));
    done += result.bytes / page_size;
    if (result.bytes != 0) attempt = 0;
    switch (result.status) {
      case OpStatus::ok:
        return {OpStatus::ok, span.bytes()};
      case OpStatus::incomplete:
        break;
      case OpStatus::occupied:
        count(target.counters.false_residency);
        punch(target, {span.first + done, 1}, {});
        break;
      case OpStatus::process_gone:
        if (done != 0) punch(target, {span.first, done}, {});
        return {OpStatus::process_gone, 0};
      default:
        return {result.status, done * page_size};
    }
  }
  return {OpStatus::incomplete, done * page_size};
}

OpResult PageEngine::copy(const LockedBlock& block, PageRun run, ProcessorMemory& source,
                          ProcessorMemory& target, bool entered) const {
  return fill(target, block.span_of(run), [&](PageSpan rest) {
    const std::byte* data = source.file.alias(rest.first);
    return entered ? target.mapper.copy_protected(rest, data, block.waiter)
                   : target.file.fill(rest, data);
  });
}

void PageEngine::punch(ProcessorMemory& owner, PageSpan span, const PageMask& held) const {
  const bool is_part_of_full = span.count < pages_per_block && held == ~PageMask{};
  // Linux frees pages of an in-memory file without needing memory, so an error means a wrong call.
  const int error =
      is_part_of_full ? owner.file.punch_from_full_block(span) : owner.file.punch(span);
  WHERRY_CHECK(error == 0, "punch of {} pages at {} from pool {}: errno {}", span.count,
               span.first.value, owner.id.index, error);
}

OpResult PageEngine::populate(const LockedBlock& block, PageRun run, Processor p,
                              Reservation& reservation, Entry entry, Motive motive) {
  ProcessorMemory& target = at(p);
  const bool enters = this->enters(block, run, p, entry);
  const bool entered = enters && !is_huge_page(run, p);
  const OpResult result = fill(target, block.span_of(run), [&](PageSpan rest) {
    return entered ? target.mapper.zero(rest, block.waiter) : target.file.fill_zero(rest);
  });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_creation(block, done, p, reservation);
  if (entered) block.state.mapped(p, done, true);
  if (enters && !entered) enter_arrived(block, done, p);
  entries_.note_if_scattered(block, p);
  // The event has no duration: reading the clock takes as long as a good part of the operation, and
  // the fault's own event has the time.
  recorder_.record({EventKind::populate, motive, {}, p}, block.index, done);
  return result;
}

OpResult PageEngine::fill(const LockedBlock& block, PageRun run, Processor p,
                          Reservation& reservation, const std::byte* contents) {
  ProcessorMemory& target = at(p);
  const PageSpan span = block.span_of(run);
  const OpResult result = fill(target, span, [&](PageSpan rest) {
    return target.file.fill(rest, contents + (rest.first - span.first) * page_size);
  });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_creation(block, done, p, reservation);
  recorder_.record({EventKind::populate, MoveCause::creation, {}, p}, block.index, done);
  return result;
}

void PageEngine::account_creation(const LockedBlock& block, PageRun run, Processor p,
                                  Reservation& reservation) {
  reservation.spend(run.count);
  page_books_.created(block, run, p);
}

void PageEngine::account_copy(const LockedBlock& block, PageRun run, Processor to,
                              Reservation& reservation) {
  reservation.spend(run.count);
  const std::uint64_t now = arrival_ns();
  if (const auto thrashing = page_books_.copied(block, run, to, MoveCause::fault, now))
    recorder_.record_thrashing(block.span_of(run), to, thrashing, now);
}

void PageEngine::account_move(const LockedBlock& block, PageRun run, Processor from, Processor to,
                              Reservation& reservation, MoveCause cause) {
  reservation.spend(run.count);
  const std::uint64_t now = arrival_ns();
  if (const auto thrashing = page_books_.moved(block, run, from, to, cause, now))
    recorder_.record_thrashing(block.span_of(run), to, thrashing, now);
}

OpResult PageEngine::migrate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                             Reservation& reservation, Motive motive, Entry entry) {
  const std::uint64_t begun_ns = OperationRecorder::begin_ns(EventKind::migration);
  ProcessorMemory& source = at(from);
  ProcessorMemory& target = at(to);

  // 0. The pages share no huge page with others.
  if (const OpStatus status = separator_.separate(block, run, {from, to, motive.cause});
      status != OpStatus::ok)
    return {status, 0};
  // 1. No processor can write the old copy any more.
  if (const OpStatus status = entries_.close(block, run, from); status != OpStatus::ok) {
    entries_.allow_writes(block, run, from);
    return {status, 0};
  }
  // 2. The new copy arrives write-protected, or not mapped: while two copies exist, neither can
  // change.
  const bool enters = this->enters(block, run, to, entry);
  const bool entered = enters && target.mapper.punch_unmaps() && !is_written(block, run, to);
  const OpResult result = copy(block, run, source, target, entered);
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count != 0) {
    // 3. The old copy goes, and with it every mapping of it, in every process.
    punch(source, block.span_of(done), block.state.at(from).resident);
    // 4. The state, before another thread can act on the new place.
    account_move(block, done, from, to, reservation, motive.cause);
    if (entered) block.state.mapped(to, done, false);
    // 5. One copy, one place: it may be written again.
    if (enters && !entered) enter_arrived(block, done, to);
    entries_.allow_writes(block, done, to);
    entries_.note_if_scattered(block, to);
    recorder_.record({EventKind::migration, motive, from, to, begun_ns}, block.index, done);
  }
  if (done.count != run.count)
    entries_.allow_writes(block, {done.end(), run.count - done.count}, from);
  return result;
}

OpResult PageEngine::duplicate(const LockedBlock& block, PageRun run, Processor from, Processor to,
                               Reservation& reservation, Entry entry, Motive motive) {
  const std::uint64_t begun_ns = OperationRecorder::begin_ns(EventKind::duplicate);
  ProcessorMemory& target = at(to);
  // If the copy fails, the protection stays; the next write lifts it.
  if (const OpStatus status = entries_.protect(block, run, from); status != OpStatus::ok)
    return {status, 0};
  const bool enters = this->enters(block, run, to, entry);
  const bool entered = enters && !is_written(block, run, to);
  const OpResult result = copy(block, run, at(from), target, entered);
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_copy(block, done, to, reservation);
  if (entered) block.state.mapped(to, done, false);
  if (enters && !entered) enter_arrived(block, done, to);
  recorder_.record({EventKind::duplicate, motive, from, to, begun_ns}, block.index, done);
  return result;
}

OpStatus PageEngine::begin_transfer(const LockedBlock& block, PageTransfer& transfer) {
  const PageRun run = transfer.run();
  transfer.begun_ns = OperationRecorder::begin_ns(kind_of(transfer.kind));
  const bool moves = transfer.kind == PageTransfer::Kind::move;
  if (moves) {
    const OpStatus status = separator_.separate(block, run, departure_of(transfer));
    if (status != OpStatus::ok) return status;
  }
  if (transfer.kind != PageTransfer::Kind::create) {
    const OpStatus status = moves ? entries_.close(block, run, transfer.from)
                                  : entries_.protect(block, run, transfer.from);
    if (status != OpStatus::ok) {
      entries_.allow_writes_if_alone(block, run, transfer.from);
      return status;
    }
  }
  block.state.transfer_begun(run);
  transfers_.begun(transfer.span);
  return OpStatus::ok;
}

OpStatus PageEngine::complete_transfer(const LockedBlock& block, const PageTransfer& transfer,
                                       const TransferResult& outcome, Reservation& reservation,
                                       Entry entry) {
  const auto& [kind, span, from, to, cause, begun_ns] = transfer;
  const PageRun run = transfer.run();
  const bool leaves = kind == PageTransfer::Kind::move && !outcome.released;
  if (leaves) {
    // Linux may have merged the pages with others since the transfer began. They are still in
    // flight, so that separate() lets no processor write the old copy.
    const OpStatus status = separator_.separate(block, run, departure_of(transfer));
    if (status != OpStatus::ok) {
      abort_transfer(block, transfer);
      return status;
    }
  }
  block.state.transfer_ended(run);
  transfers_.ended(span);
  // No processor has mapped the new copy yet, and none can write the old one: the order of the
  // punch and of the state does not matter here.
  if (leaves)
    punch(at(from), span, block.state.at(from).resident);
  else if (kind == PageTransfer::Kind::move)
    at(from).file.left(span);
  switch (kind) {
    case PageTransfer::Kind::move:
      account_move(block, run, from, to, reservation, cause);
      break;
    case PageTransfer::Kind::copy:
      account_copy(block, run, to, reservation);
      break;
    case PageTransfer::Kind::create:
      account_creation(block, run, to, reservation);
      break;
  }
  if (cause == MoveCause::prefetch) count(at(to).counters.prefetched, run.count);
  const bool created = kind == PageTransfer::Kind::create;
  recorder_.record(
      {kind_of(kind), cause, created ? std::nullopt : std::optional(from), to, begun_ns},
      block.index, run);
  if (enters(block, run, to, entry)) enter_arrived(block, run, to);
  return OpStatus::ok;
}

bool PageEngine::is_written(const LockedBlock& block, PageRun run, Processor p) const {
  const PageMask& here = block.state.at(p).resident;
  return at(p).file.maps_huge_pages() &&
         may_be_written(run, [&](PageRun other) { return (here & PageMask::of(other)).none(); });
}

bool PageEngine::is_huge_page(PageRun run, Processor p) const {
  return run.count == pages_per_block && at(p).file.maps_huge_pages();
}

void PageEngine::enter_arrived(const LockedBlock& block, PageRun run, Processor p) {
  if (run.count == pages_per_block && entries_.enter_whole(block, p)) return;
  (void)map(block, run, p);
}

bool PageEngine::restore_holes(const LockedBlock& block, Processor owner) {
  // A userfaultfd keeps Linux from filling holes.
  if (at(table_of(owner)).mapper.punch_unmaps()) return true;
  const PageMask holes = ~block.state.at(owner).resident;
  if (holes.none()) return true;
  if (!block.state.in_flight().none()) return false;
  PoolFile& file = at(owner).file;
  bool restored = true;
  for (const PageRun run : runs_of(holes)) {
    const PageSpan together = file.folios_around(block.span_of(run));
    const PageRun moved = run_in_block(block.index, together);
    const bool closed = entries_.close(block, moved, owner) == OpStatus::ok;
    restored = closed && restored &&
               file.rebuild(together, block.state.at(owner).resident) == OpStatus::ok;
    entries_.allow_writes_if_alone(block, moved, owner);
  }
  return restored;
}

void PageEngine::abort_transfer(const LockedBlock& block, const PageTransfer& transfer) {
  block.state.transfer_ended(transfer.run());
  transfers_.ended(transfer.span);
  const PageMask& beside = block.state.at(transfer.to).resident;
  punch(at(transfer.to), transfer.span, beside | PageMask::of(transfer.run()));
  if (transfer.kind != PageTransfer::Kind::create)
    entries_.allow_writes_if_alone(block, transfer.run(), transfer.from);
}

void PageEngine::begin_byte_transfer(const LockedBlock& block, const PageMask& pages) {
  for (const PageRun run : runs_of(pages)) {
    block.state.transfer_begun(run);
    transfers_.begun(block.span_of(run));
  }
}

void PageEngine::end_byte_transfer(const LockedBlock& block, const PageMask& pages) {
  for (const PageRun run : runs_of(pages)) {
    block.state.transfer_ended(run);
    transfers_.ended(block.span_of(run));
  }
}

PageMask PageEngine::take_out(const LockedBlock& block, const PageMask& pages,
                              const FolioSeparator::Departure& departure) {
  const Processor p = departure.owner;
  const PageMask& held = block.state.at(p).resident;
  PageMask out;
  for (const PageRun run : runs_of(pages & held)) {
    if (separator_.separate(block, run, departure) != OpStatus::ok) continue;
    entries_.unmap_everywhere(block, PageMask::of(run), p);
    punch(at(p), block.span_of(run), held - out);
    recorder_.record({EventKind::invalidate, departure.cause, p, {}}, block.index, run);
    out |= PageMask::of(run);
  }
  return out;
}

PageMask PageEngine::drop(const LockedBlock& block, PageRun run, Processor p, MoveCause cause) {
  const PageMask dropped =
      take_out(block, PageMask::of(run), {p, std::nullopt, cause, IfHeld::leave});
  page_books_.dropped(block, dropped, p, cause);
  return dropped;
}

void PageEngine::collapse(const LockedBlock& block, PageRun run, Processor keeper,
                          MoveCause cause) {
  const PageMask kept =
      (PageMask::of(run) & block.state.at(keeper).resident) - block.state.in_flight();
  const PageMask several = kept & block.state.resident_beside(keeper);
  // The other copies go first: no processor may write the last one while there is another.
  for (int i = 0; i < processors(); ++i) {
    if (i == keeper.index) continue;
    for (const PageRun part : runs_of(several & block.state.at(Processor{i}).resident)) {
      const PageMask left = PageMask::of(part) - drop(block, part, Processor{i}, cause);
      // If this copy is held and cannot go, the keeper's copy goes.
      for (const PageRun stays : runs_of(left))
        if (separator_.is_held_now(block, stays, Processor{i}))
          (void)drop(block, stays, keeper, cause);
    }
  }
  const PageMask alone = kept - block.state.resident_beside(keeper);
  count(at(keeper).counters.collapsed, (several & alone).count());
  for (const PageRun part : runs_of(alone)) entries_.allow_writes(block, part, keeper);
  entries_.note_if_scattered(block, keeper);
}

void PageEngine::read(const LockedBlock& block, PageRun run, std::byte* into) const {
  PageMask left = PageMask::of(run);
  for (int i = 0; i < processors(); ++i) {
    const ProcessorMemory& owner = at(Processor{i});
    const PageMask held = left & block.state.at(owner.id).resident;
    left -= held;
    for (const PageRun part : runs_of(held)) {
      const PageSpan span = block.span_of(part);
      std::memcpy(into + (part.first - run.first) * page_size, owner.file.alias(span.first),
                  span.bytes());
    }
  }
}

OpStatus PageEngine::freeze(const LockedBlock& block, PageRun run) {
  for (int i = 0; i < processors(); ++i) {
    const Processor owner{i};
    for (const PageRun part : runs_of(PageMask::of(run) & block.state.at(owner).resident))
      if (const OpStatus status = entries_.close(block, part, owner); status != OpStatus::ok)
        return status;
  }
  return OpStatus::ok;
}

PageMask PageEngine::release(const LockedBlock& block, PageRun run, IfHeld if_held) {
  std::array<PageMask, max_processors> out;
  PageMask stays;
  for (int i = 0; i < processors(); ++i) {
    const Processor p{i};
    const PageMask wanted = PageMask::of(run) & block.state.at(p).resident;
    const PageMask gone = take_out(block, wanted, {p, std::nullopt, MoveCause::release, if_held});
    out[static_cast<std::size_t>(i)] = gone;
    stays |= wanted - gone;
  }
  if (!stays.none()) {
    for (int i = 0; i < processors(); ++i)
      page_books_.dropped(block, out[static_cast<std::size_t>(i)] & stays, Processor{i},
                          MoveCause::release);
    separator_.close_held(block, stays);
  }
  for (const PageRun gone : runs_of(PageMask::of(run) - stays)) {
    recorder_.record_release(block.index, gone);
    page_books_.released(block, gone);
  }
  return stays;
}

bool PageEngine::must_separate(const LockedBlock& block, const PageMask& pages) const {
  for (int i = 0; i < processors(); ++i)
    for (const PageRun run : runs_of(pages & block.state.at(Processor{i}).resident))
      if (separator_.has_work(block, run, Processor{i})) return true;
  return false;
}

OpResult PageEngine::map(const LockedBlock& block, PageRun run, Processor p) {
  const OpResult result = entries_.map(block, run, p);
  if (result.status != OpStatus::unsupported) return result;
  // Before Linux 6.4 an entry cannot be made write-protected. p's own copies are dropped, and come
  // back protected; pages that p sees in another pool lose their other copies.
  const Processor owner = block.state.view(p, run.first);
  for (const PageRun part : runs_of(PageMask::of(run) & block.state.resident_beside(owner))) {
    if (owner == p)
      drop(block, part, p);
    else
      collapse(block, part, owner);
  }
  return {OpStatus::incomplete, 0};
}

void PageEngine::note_access(const LockedBlock& block, Processor owner) {
  page_books_.accessed(block, owner);
}

}  // namespace wherry::impl
