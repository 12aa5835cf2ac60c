#include "migration/page_engine.h"

#include "base/check.h"
#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// How often a kernel answer "try again" without any progress is believed. Each comes from a
// concurrent change of the process's mappings, which ends; the limit keeps a broken kernel from
// holding a block for ever.
constexpr int attempts_max = 8;

PageSpan rest_of(PageSpan span, std::uint64_t done) {
  return {span.first + done, span.count - done};
}

// When an operation of this kind begins, if anybody asks.
std::uint64_t begin_ns(EventKind kind) {
  return is_recorded(kind) ? now_ns() : 0;
}

// Nobody has touched pages that move, or come to exist, for this reason.
bool is_for_nobody(MoveCause cause) {
  return cause != MoveCause::fault && cause != MoveCause::thrash_pin && cause != MoveCause::none;
}

std::int8_t index_of(const std::optional<Processor>& p) {
  return p ? impl::index_of(*p) : EventRecord::nobody;
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
                       const Policy* policy)
    : policy_(policy), count_(static_cast<int>(processors.size())), layout_(layout) {
  for (std::size_t i = 0; i < processors.size(); ++i) {
    processors_[i] = processors[i];
    if (!processors[i]->id.is_host()) held_[i].emplace(processors[i]->blocks.size());
  }
}

// Runs fill_from(rest) until the whole span is in the target's pool, advancing over what arrived. A
// page that is there already contradicts the books: success would let the caller punch the only
// true copy, so it is thrown out and filled again. When the process has gone nothing has arrived:
// nobody is left who could see it.
template <typename Fill>
OpResult PageEngine::fill(ProcessorMemory& target, PageSpan span, Fill fill_from) const {
  std::uint64_t done = 0;
  for (int attempt = 0; attempt < attempts_max; ++attempt) {
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
        punch(target, {span.first + done, 1});
        break;
      case OpStatus::process_gone:
        if (done != 0) punch(target, {span.first, done});
        return {OpStatus::process_gone, 0};
      default:
        return {result.status, done * page_size};
    }
  }
  return {OpStatus::incomplete, done * page_size};
}

OpResult PageEngine::copy(ProcessorMemory& source, ProcessorMemory& target, PageSpan span,
                          bool entered) const {
  return fill(target, span, [&](PageSpan rest) {
    const std::byte* data = source.file.alias(rest.first);
    return entered ? target.mapper.copy_protected(rest, data) : target.file.fill(rest, data);
  });
}

OpStatus PageEngine::protect(Block& block, std::uint64_t number, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < count_; ++i) {
    const Processor p{i};
    const PageMask open = (wanted & block.mapped_from(p, owner)) - block.at(p).write_protected;
    for (const PageRun part : runs_of(open)) {
      const OpStatus status = at(p).mapper.write_protect(span_of(number, part)).status;
      // A process that is gone cannot write.
      if (status != OpStatus::ok && status != OpStatus::process_gone) {
        lift_protection(at(p), span_of(number, part));
        return status;
      }
      block.write_protected(p, part);
    }
  }
  return OpStatus::ok;
}

OpStatus PageEngine::close(Block& block, std::uint64_t number, PageRun run, Processor owner) {
  for (int i = 0; i < count_; ++i)
    unmap(block, number, PageMask::of(run) & block.mapped_from(Processor{i}, owner), Processor{i});
  return protect(block, number, run, owner);
}

void PageEngine::unmap(Block& block, std::uint64_t number, const PageMask& pages, Processor p) {
  if (at(p).mapper.punch_unmaps()) return;
  for (const PageRun run : runs_of(pages & block.at(p).mapped)) {
    const OpStatus status = at(p).mapper.unmap(span_of(number, run)).status;
    // Whoever can still touch them would create pages that nobody knows of.
    WHERRY_CHECK(status == OpStatus::ok || status == OpStatus::process_gone,
                 "pages {}+{} of block {} cannot be taken from processor {}: {}", run.first,
                 run.count, number, p.index, to_string(status));
    block.unmapped(p, run);
  }
}

void PageEngine::allow_writes(Block& block, std::uint64_t number, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < count_; ++i) {
    const Processor p{i};
    const PageMask closed = wanted & block.mapped_from(p, owner) & block.at(p).write_protected;
    for (const PageRun part : runs_of(closed)) {
      block.writable(p, part);
      lift_protection(at(p), span_of(number, part));
    }
  }
}

void PageEngine::lift_protection(ProcessorMemory& owner, PageSpan span) const {
  // Not more than an optimization: a page left protected faults once more, and is unprotected then.
  for (int attempt = 0; attempt < attempts_max; ++attempt)
    if (owner.mapper.write_unprotect(span).status != OpStatus::incomplete) return;
}

void PageEngine::punch(ProcessorMemory& owner, PageSpan span) const {
  // The kernel frees pages of a private in-memory file without needing memory; any error is a wrong
  // call of ours.
  const int error = owner.file.punch(span);
  WHERRY_CHECK(error == 0, "punch of {} pages at {} from pool {}: errno {}", span.count, span.first,
               owner.id.index, error);
}

void PageEngine::note_arrival(std::uint64_t number, PageRun run, Processor p, bool held_before) {
  if (p.is_host()) return;
  held_by(p).set_last_arrival(span_of(number, run).first);
  if (held_before)
    held_by(p).touched(number);
  else
    held_by(p).came(number);
}

void PageEngine::note_departure(Block& block, std::uint64_t number, Processor p, bool held_before,
                                MoveCause cause) {
  if (p.is_host() || !held_before || !block.at(p).resident.none()) return;
  block.prefetched_in = 0;
  held_by(p).left(number, cause == MoveCause::eviction ? Replacement::Departure::evicted
                                                       : Replacement::Departure::otherwise);
}

OpResult PageEngine::populate(Block& block, std::uint64_t number, PageRun run, Processor p,
                              Reservation& reservation, Entry entry, Motive motive) {
  ProcessorMemory& target = at(p);
  const bool entered = entry == Entry::at_home && block.is_home(p, run);
  const OpResult result = fill(target, span_of(number, run), [&](PageSpan rest) {
    return entered ? target.mapper.zero(rest) : target.file.fill_zero(rest);
  });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_arrival(block, number, done, p, reservation, PageTransfer::Kind::create);
  if (entered) block.mapped(p, done, true);
  // A moment, since a look at the clock takes as long as a good part of it, and the fault says how
  // long it took.
  record_operation({EventKind::populate, motive, {}, p}, number, done);
  return result;
}

OpResult PageEngine::fill(Block& block, std::uint64_t number, PageRun run, Processor p,
                          Reservation& reservation, const std::byte* contents) {
  ProcessorMemory& target = at(p);
  const PageSpan span = span_of(number, run);
  const OpResult result = fill(target, span, [&](PageSpan rest) {
    return target.file.fill(rest, contents + (rest.first - span.first) * page_size);
  });
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_arrival(block, number, done, p, reservation, PageTransfer::Kind::create);
  record_operation({EventKind::populate, MoveCause::creation, {}, p}, number, done);
  return result;
}

void PageEngine::account_arrival(Block& block, std::uint64_t number, PageRun run, Processor p,
                                 Reservation& reservation, PageTransfer::Kind kind) {
  Counters& counters = at(p).counters;
  const bool held = !block.at(p).resident.none();
  reservation.spend(run.count);
  block.evicted_from &= ~p.bit();
  if (kind == PageTransfer::Kind::create) {
    block.populated(p, run);
    count(counters.populated, run.count);
  } else {
    block.duplicated(p, run);
    tell_policy(block, number, {run, p, MoveCause::fault, /*is_copy=*/true});
    count(counters.duplicated, run.count);
    count(counters.bytes_copied, run.count * page_size);
  }
  note_arrival(number, run, p, held);
}

void PageEngine::tell_policy(Block& block, std::uint64_t number, Arrival arrival) {
  if (policy_ == nullptr || !policy_->remembers()) return;
  arrival.now_ns = now_ns();
  const ProcessorMask fighters = policy_->on_arrival(arrival, block.history);
  if (fighters == 0) return;
  count(at(arrival.to).counters.thrashing_detected);
  const PageSpan span = span_of(number, arrival.run);
  if (const auto address = address_of(span.first); address && is_recorded(EventKind::thrashing))
    record_event({.time_ns = arrival.now_ns,
                  .address = *address,
                  .bytes = span.bytes(),
                  .kind = EventKind::thrashing,
                  .destination = impl::index_of(arrival.to),
                  .processors = static_cast<std::uint16_t>(fighters)});
}

void PageEngine::account_move(Block& block, std::uint64_t number, PageRun run, Processor from,
                              Processor to, Reservation& reservation, MoveCause cause) {
  Counters& source = at(from).counters;
  Counters& target = at(to).counters;
  const bool held_source = !block.at(from).resident.none();
  const bool held_target = !block.at(to).resident.none();
  reservation.spend(run.count);
  at(from).capacity.give_back(run.count);
  block.moved(from, to, run);
  tell_policy(block, number, {run, to, cause});
  block.evicted_from &= ~to.bit();
  note_departure(block, number, from, held_source, cause);
  note_arrival(number, run, to, held_target);
  count(source.migrated_out, run.count);
  count(target.migrated_in, run.count);
  count(target.bytes_copied, run.count * page_size);
  if (cause == MoveCause::eviction) count(source.evicted, run.count);
}

OpResult PageEngine::migrate(Block& block, std::uint64_t number, PageRun run, Processor from,
                             Processor to, Reservation& reservation, Motive motive, Entry entry) {
  const std::uint64_t begun_ns = begin_ns(EventKind::migration);
  ProcessorMemory& source = at(from);
  ProcessorMemory& target = at(to);
  const PageSpan span = span_of(number, run);

  // 1. Nobody may write the old copy any more.
  if (const OpStatus status = close(block, number, run, from); status != OpStatus::ok) {
    allow_writes(block, number, run, from);
    return {status, 0};
  }
  // 2. The new copy arrives write-protected, or not mapped at all: while two copies exist, neither
  // can change.
  const bool enters = entry == Entry::at_home && block.is_home(to, run);
  const bool entered = enters && target.mapper.punch_unmaps();
  const OpResult result = copy(source, target, span, entered);
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count != 0) {
    // 3. The old copy goes, and with it every mapping of it, in every process.
    punch(source, span_of(number, done));
    // 4. State, before anybody can act on the new place.
    account_move(block, number, done, from, to, reservation, motive.cause);
    if (entered) block.mapped(to, done, false);
    // 5. One copy, one place: it may be written again.
    if (enters && !entered) (void)map(block, number, done, to);
    allow_writes(block, number, done, to);
    record_operation({EventKind::migration, motive, from, to, begun_ns}, number, done);
  }
  if (done.count != run.count)
    allow_writes(block, number, {done.end(), run.count - done.count}, from);
  return result;
}

OpResult PageEngine::duplicate(Block& block, std::uint64_t number, PageRun run, Processor from,
                               Processor to, Reservation& reservation, Entry entry, Motive motive) {
  const std::uint64_t begun_ns = begin_ns(EventKind::duplicate);
  ProcessorMemory& target = at(to);
  // A protection that was put up in vain, or for pages that do not arrive, is lifted by the next
  // write.
  if (const OpStatus status = protect(block, number, run, from); status != OpStatus::ok)
    return {status, 0};
  const bool entered = entry == Entry::at_home && block.is_home(to, run);
  const OpResult result = copy(at(from), target, span_of(number, run), entered);
  const PageRun done{run.first, static_cast<unsigned>(result.bytes / page_size)};
  if (done.count == 0) return result;
  account_arrival(block, number, done, to, reservation, PageTransfer::Kind::copy);
  if (entered) block.mapped(to, done, false);
  record_operation({EventKind::duplicate, motive, from, to, begun_ns}, number, done);
  return result;
}

OpStatus PageEngine::begin_transfer(Block& block, InFlightTransfer& transfer) {
  transfer.begun_ns = begin_ns(kind_of(transfer.kind));
  if (transfer.kind != PageTransfer::Kind::create) {
    const OpStatus status = transfer.kind == PageTransfer::Kind::move
                                ? close(block, transfer.number, transfer.run, transfer.from)
                                : protect(block, transfer.number, transfer.run, transfer.from);
    if (status != OpStatus::ok) {
      allow_writes_if_alone(block, transfer.number, transfer.run, transfer.from);
      return status;
    }
  }
  block.transfer_begun(transfer.run);
  transfers_.begun(span_of(transfer.number, transfer.run));
  return OpStatus::ok;
}

void PageEngine::complete_transfer(Block& block, const InFlightTransfer& transfer,
                                   const TransferResult& outcome, Reservation& reservation) {
  const auto& [number, run, kind, from, to, cause, begun_ns] = transfer;
  // Nobody has mapped the new copy so far, nor may the old one be written: it can go at any time.
  if (kind == PageTransfer::Kind::move && !outcome.released) punch(at(from), span_of(number, run));
  block.transfer_ended(run);
  transfers_.ended(span_of(number, run));
  if (kind == PageTransfer::Kind::move)
    account_move(block, number, run, from, to, reservation, cause);
  else
    account_arrival(block, number, run, to, reservation, kind);
  if (cause == MoveCause::prefetch) count(at(to).counters.prefetched, run.count);
  const bool created = kind == PageTransfer::Kind::create;
  record_operation(
      {kind_of(kind), cause, created ? std::nullopt : std::optional(from), to, begun_ns}, number,
      run);
  // What cannot be entered now faults, and is looked at then. What was evicted is not expected to
  // be used soon.
  if (cause == MoveCause::eviction || !block.is_home(to, run)) return;
  if (run.count == pages_per_block && enter_whole(block, number, to)) return;
  (void)map(block, number, run, to);
}

bool PageEngine::enter_whole(Block& block, std::uint64_t number, Processor p) {
  if (!at(p).file.maps_huge_pages() || !block.at(p).mapped.none() || !block.held_beside(p).none())
    return false;
  constexpr PageRun all{0, pages_per_block};
  const OpStatus status = at(p).mapper.map_whole(block_span(number)).status;
  if (status == OpStatus::process_gone || status == OpStatus::unsupported) return false;
  // Whoever touched it meanwhile has entries, whatever became of the huge one.
  block.mapped(p, all, true);
  if (status != OpStatus::ok) return false;
  block.entered_whole |= p.bit();
  return true;
}

void PageEngine::abort_transfer(Block& block, const InFlightTransfer& transfer) {
  const PageSpan span = span_of(transfer.number, transfer.run);
  punch(at(transfer.to), span);
  block.transfer_ended(transfer.run);
  transfers_.ended(span);
  if (transfer.kind != PageTransfer::Kind::create)
    allow_writes_if_alone(block, transfer.number, transfer.run, transfer.from);
}

void PageEngine::begin_hold(Block& block, std::uint64_t number, const PageMask& pages) {
  for (const PageRun run : runs_of(pages)) {
    block.transfer_begun(run);
    transfers_.begun(span_of(number, run));
  }
}

void PageEngine::end_hold(Block& block, std::uint64_t number, const PageMask& pages) {
  for (const PageRun run : runs_of(pages)) {
    block.transfer_ended(run);
    transfers_.ended(span_of(number, run));
  }
}

void PageEngine::allow_writes_if_alone(Block& block, std::uint64_t number, PageRun run,
                                       Processor owner) {
  for (const PageRun alone : runs_of(PageMask::of(run) - block.held_beside(owner)))
    allow_writes(block, number, alone, owner);
}

PageMask PageEngine::take_out(Block& block, std::uint64_t number, const PageMask& pages,
                              Processor p, MoveCause cause) {
  const PageMask held = pages & block.at(p).resident;
  for (int i = 0; i < count_; ++i)
    unmap(block, number, held & block.mapped_from(Processor{i}, p), Processor{i});
  for (const PageRun run : runs_of(held)) {
    punch(at(p), span_of(number, run));
    record_operation({EventKind::invalidate, cause, p, {}}, number, run);
  }
  at(p).capacity.give_back(held.count());
  return held;
}

void PageEngine::drop(Block& block, std::uint64_t number, PageRun run, Processor p,
                      MoveCause cause) {
  const PageMask dropped = take_out(block, number, PageMask::of(run), p, cause);
  for (const PageRun part : runs_of(dropped)) block.dropped(p, part);
  note_departure(block, number, p, !dropped.none(), cause);
  if (cause == MoveCause::eviction) count(at(p).counters.evicted, dropped.count());
}

void PageEngine::collapse(Block& block, std::uint64_t number, PageRun run, Processor keeper,
                          MoveCause cause) {
  const PageMask kept = (PageMask::of(run) & block.at(keeper).resident) - block.in_flight();
  const PageMask several = kept & block.held_beside(keeper);
  // The other copies go first; nobody may write the last one while there is another.
  for (int i = 0; i < count_; ++i) {
    if (i == keeper.index) continue;
    for (const PageRun part : runs_of(several & block.at(Processor{i}).resident))
      drop(block, number, part, Processor{i}, cause);
  }
  count(at(keeper).counters.collapsed, several.count());
  for (const PageRun part : runs_of(kept)) allow_writes(block, number, part, keeper);
}

void PageEngine::release(Block& block, std::uint64_t number, PageRun run) {
  std::array<bool, max_processors> held_before{};
  for (int i = 0; i < count_; ++i) {
    held_before[i] = !block.at(Processor{i}).resident.none();
    take_out(block, number, PageMask::of(run), Processor{i}, MoveCause::release);
  }
  block.released(run);
  decisions_.add({.time_ns = now_ns(), .block = number, .run = run, .cause = MoveCause::release});
  if (block.history && policy_ != nullptr) policy_->on_release(run, *block.history);
  for (int i = 0; i < count_; ++i) note_departure(block, number, Processor{i}, held_before[i]);
  if (block.absent() != ~PageMask{}) return;
  block.evicted_from = block.entered_whole = 0;
  block.history = nullptr;
}

void PageEngine::record_operation(const OperationRecord& operation, std::uint64_t number,
                                  PageRun run) {
  if (is_for_nobody(operation.motive.cause) && operation.to)
    decisions_.add({.time_ns = operation.begun_ns == 0 ? now_ns() : operation.begun_ns,
                    .block = number,
                    .run = run,
                    .source = index_of(operation.from),
                    .destination = index_of(operation.to),
                    .cause = operation.motive.cause});
  if (!is_recorded(operation.kind)) return;
  const std::uint64_t now = now_ns();
  const std::uint64_t begun = operation.begun_ns == 0 ? now : operation.begun_ns;
  const auto [cause, touched] = operation.motive;
  const PageMask page = touched ? PageMask::of({*touched, 1}) : PageMask::of(run);
  // They came together: each part took its share.
  const auto record = [&](PageRun part, MoveCause why) {
    record_part({operation.kind, why, operation.from, operation.to, begun}, number, part,
                (now - begun) * part.count / run.count);
  };
  for (const PageRun part : runs_of(PageMask::of(run) & page)) record(part, cause);
  for (const PageRun part : runs_of(PageMask::of(run) - page))
    record(part, MoveCause::speculative_prefetch);
}

void PageEngine::record_part(const OperationRecord& operation, std::uint64_t number, PageRun run,
                             std::uint64_t duration_ns) const {
  const PageSpan span = span_of(number, run);
  const auto address = address_of(span.first);
  if (!address) return;  // who has them made says so
  record_event({.time_ns = operation.begun_ns,
                .duration_ns = duration_ns,
                .address = *address,
                .bytes = span.bytes(),
                .kind = operation.kind,
                .cause = operation.motive.cause,
                .source = index_of(operation.from),
                .destination = index_of(operation.to)});
}

OpStatus PageEngine::enter(Block& block, std::uint64_t number, PageRun run, Processor p,
                           bool writable) {
  const PageSpan span = span_of(number, run);
  std::uint64_t done = 0;
  OpStatus status = OpStatus::incomplete;
  for (int attempt = 0; attempt < attempts_max && done < span.count; ++attempt) {
    const OpResult result = at(p).mapper.map_resident(rest_of(span, done), !writable);
    done += result.bytes / page_size;
    status = result.status;
    if (result.bytes != 0) attempt = 0;
    if (status == OpStatus::occupied) {
      // Mapped already: as good, if it is as it should be.
      if (!writable) status = at(p).mapper.write_protect({span.first + done, 1}).status;
      if (!writable && status != OpStatus::ok) break;
      ++done;
      attempt = 0;
    } else if (status != OpStatus::ok && status != OpStatus::incomplete) {
      break;
    }
  }
  if (done != 0) block.mapped(p, {run.first, static_cast<unsigned>(done)}, writable);
  return done == span.count ? OpStatus::ok : status;
}

bool PageEngine::was_taken(Block& block, std::uint64_t number, unsigned page, Processor p) {
  const bool has_copies = block.held_beside(block.view(p, page)).test(page);
  return at(p).mapper.map_resident(span_of(number, {page, 1}), has_copies).status == OpStatus::ok;
}

void PageEngine::note_access(Block& block, std::uint64_t number, Processor owner) {
  if (owner.is_host()) return;
  held_by(owner).touched(number);
  block.prefetched_in = 0;
}

OpResult PageEngine::map(Block& block, std::uint64_t number, PageRun run, Processor p) {
  const Processor owner = block.view(p, run.first);
  const PageMask wanted = PageMask::of(run);
  if (!(wanted & (block.switching(p) | block.in_flight())).none()) return {OpStatus::incomplete, 0};
  const PageMask several = wanted & block.held_beside(owner);
  for (const bool writable : {true, false}) {
    for (const PageRun part : runs_of(writable ? wanted - several : several)) {
      const PageMask fresh = PageMask::of(part) - block.at(p).mapped;
      const OpStatus status = enter(block, number, part, p, writable);
      if (status == OpStatus::unsupported) {
        // Before Linux 6.4: gives the copy up, and the page comes back as a protected one. What is
        // seen at another's pool gets to have no copies instead.
        if (owner == p)
          drop(block, number, part, p);
        else
          collapse(block, number, part, owner);
        return {OpStatus::incomplete, 0};
      }
      if (status != OpStatus::ok) return {status, 0};
      if (owner == p) continue;
      count(at(p).counters.mapped_remotely, fresh.count());
      if (!is_recorded(EventKind::remote_map)) continue;
      for (const PageRun seen : runs_of(fresh))
        record_operation({EventKind::remote_map, MoveCause::none, owner, p}, number, seen);
    }
  }
  return {OpStatus::ok, span_of(number, run).bytes()};
}

}  // namespace wherry::impl
