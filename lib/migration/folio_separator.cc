#include "migration/folio_separator.h"

#include <array>
#include <bit>

#include "base/check.h"

namespace wherry::impl {
namespace {

// Several attempts, because the library's copies, and Linux itself, may hold a page for a moment.
constexpr int split_attempts_max = 3;

}  // namespace

bool FolioSeparator::has_work(const LockedBlock& block, PageRun run, Processor owner) const {
  return entries_.at(owner).file.folios(block.span_of(run), block.state.at(owner).resident) !=
         Folios::apart;
}

bool FolioSeparator::is_part_of_merge(const LockedBlock& block, PageRun run,
                                      Processor owner) const {
  return run.count != pages_per_block && entries_.scattered_blocks().is_merging(block, owner);
}

bool FolioSeparator::is_held_now(const LockedBlock& block, PageRun run, Processor owner) const {
  if (is_part_of_merge(block, run, owner)) return true;
  const std::uint64_t retry_at_ns = held_.retry_at(block.index);
  return retry_at_ns != 0 && clock_() < retry_at_ns && has_work(block, run, owner);
}

OpStatus FolioSeparator::separate(const LockedBlock& block, PageRun run,
                                  const Departure& departure) {
  const Processor owner = departure.owner;
  PoolFile& file = entries_.at(owner).file;
  const PageSpan span = block.span_of(run);
  // On busy CPUs a merge may take seconds, because Linux first waits for a kernel thread on each
  // CPU. Only a prefetch waits: a fault is answered where the page is, and an eviction takes
  // another block.
  if (is_part_of_merge(block, run, owner)) {
    const bool may_wait = departure.cause == MoveCause::prefetch;
    return departure.if_held == IfHeld::stay && !may_wait ? OpStatus::held : OpStatus::incomplete;
  }
  const PageMask others_in_flight = block.state.in_flight() - PageMask::of(run);
  if (!others_in_flight.none() && becomes_full(block, owner)) return OpStatus::incomplete;
  const Folios folios = file.folios(span, block.state.at(owner).resident);
  if (folios == Folios::apart) {
    // If all pages that the pool has of the block leave, pages that come later are not held.
    if ((block.state.at(owner).resident - PageMask::of(run)).none()) held_.ended(block.index);
    return OpStatus::ok;
  }
  // A copy that is under way uses entries and references of its own, so Linux would not split.
  if (!others_in_flight.none()) return OpStatus::incomplete;
  const bool may_stay = departure.if_held == IfHeld::stay;
  const std::uint64_t now = clock_();
  if (may_stay && now < held_.retry_at(block.index)) return OpStatus::held;

  OpStatus status = folios == Folios::huge_page ? split(block, run, owner) : OpStatus::unsupported;
  if (status == OpStatus::ok) {
    held_.ended(block.index);
    return OpStatus::ok;
  }
  const PageRun together = run_in_block(block.index, file.folios_around(span));
  const PageMask in_danger = PageMask::of(together) & block.state.at(owner).resident;
  const bool has_pins = pins_ != nullptr && !(pins_->pinned(block.index) & in_danger).none();
  if (has_pins || (status == OpStatus::held && may_stay)) {
    held_.refused(block.index, now);
    note_held(block, run, departure);
    return OpStatus::held;
  }
  status = rebuild(block, together, owner);
  if (status == OpStatus::ok) held_.ended(block.index);
  return status;
}

bool FolioSeparator::becomes_full(const LockedBlock& block, Processor owner) const {
  const PageMask& resident = block.state.at(owner).resident;
  return resident != ~PageMask{} && (resident | block.state.in_flight()) == ~PageMask{} &&
         entries_.at(owner).file.maps_huge_pages();
}

void FolioSeparator::note_held(const LockedBlock& block, PageRun run, const Departure& departure) {
  recorder_.record({EventKind::held, departure.cause, departure.owner, departure.to}, block.index,
                   run);
  count(entries_.at(departure.owner).counters.held, run.count);
}

void FolioSeparator::close_held(const LockedBlock& block, const PageMask& pages) {
  for (int i = 0; i < entries_.processors(); ++i) {
    const Processor p{i};
    const PageMask mapped = pages & block.state.at(p).mapped;
    if (mapped.none()) continue;
    if (!entries_.at(p).mapper.punch_unmaps()) {
      entries_.unmap(block, mapped, p);
      continue;
    }
    if (!entries_.at(p).mapper.remove_entries(block_span(block.index))) continue;
    for (const PageRun run : runs_of(mapped)) block.state.unmapped(p, run);
  }
  for (int i = 0; i < entries_.processors(); ++i) enter_again(block, Processor{i}, pages);
}

OpStatus FolioSeparator::split(const LockedBlock& block, PageRun run, Processor owner) {
  const PageSpan span = block.span_of(run);
  ProcessorMask others = 0;
  for (int i = 0; i < entries_.processors(); ++i) {
    const Processor p{i};
    const PageMask mapped = block.state.mapped_from(p, owner);
    Mapper& mapper = entries_.at(p).mapper;
    if (mapped.none()) continue;
    // With page protection, threads enter pages without a fault that the library sees.
    if (!mapper.punch_unmaps() || !block.state.switching(p).none()) return OpStatus::unsupported;
    const OpStatus removed = mapper.remove_entries(block_span(block.index)).status;
    if (removed == OpStatus::ok || removed == OpStatus::process_gone) continue;
    others |= p.bit();
    if ((block.state.entered_whole & p.bit()) == 0) continue;
    // Linux removes a huge entry when a part of it is write-protected.
    const PageRun part = (mapped & PageMask::of(run)).next_run(0);
    if (part.count == 0) continue;
    const OpStatus closed = mapper.write_protect(block.span_of(part), block.waiter).status;
    if (closed == OpStatus::ok) block.state.write_protected(p, part);
    if (closed == OpStatus::ok || closed == OpStatus::process_gone) others &= ~p.bit();
  }
  OpStatus status = OpStatus::unsupported;
  if (others == 0)
    status = entries_.at(owner).file.split(span);
  else if (std::has_single_bit(others))
    status = split_through(block, run, owner, Processor{std::countr_zero(others)});
  enter_again(block, owner, {});
  if (status != OpStatus::ok) entries_.allow_writes_if_alone(block, run, owner);
  return status;
}

OpStatus FolioSeparator::split_through(const LockedBlock& block, PageRun run, Processor owner,
                                       Processor p) {
  PoolFile& file = entries_.at(owner).file;
  Mapper& mapper = entries_.at(p).mapper;
  const PageSpan span = block.span_of(run);
  const PageSpan all = block_span(block.index);
  const PageRun seen = (block.state.viewed(p, owner) - block.state.in_flight()).next_run(0);
  if (seen.count == 0) return OpStatus::unsupported;
  for (int attempt = 0; attempt < split_attempts_max; ++attempt) {
    // Linux splits only through a page table that has an entry.
    if (!entries_.map(block, {seen.first, 1}, p)) return OpStatus::unsupported;
    file.remove_own_entries(all);
    if (!mapper.split_folios(block.span_of({seen.first, 1}))) return OpStatus::unsupported;
    if (file.folios(span, block.state.at(owner).resident) == Folios::huge_page) continue;
    file.was_split(all);
    return OpStatus::ok;
  }
  // Not `held`: Linux tracks two processes that map a folio. Once a third one has, it may take the
  // folio for shared until all entries are gone, which they are not here.
  return OpStatus::unsupported;
}

OpStatus FolioSeparator::rebuild(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask pages = PageMask::of(run) & block.state.at(owner).resident;
  std::array<PageMask, max_processors> mapped;
  for (int i = 0; i < entries_.processors(); ++i)
    mapped[static_cast<std::size_t>(i)] = pages & block.state.mapped_from(Processor{i}, owner);
  OpStatus status = OpStatus::ok;
  for (const PageRun part : runs_of(pages)) {
    status = entries_.close(block, part, owner);
    if (status != OpStatus::ok) break;
  }
  if (status == OpStatus::ok)
    status = entries_.at(owner).file.rebuild(block.span_of(run), block.state.at(owner).resident);
  enter_again(block, owner, {});
  // With page protection, close() has removed the access, so the pages are mapped again.
  for (int i = 0; i < entries_.processors(); ++i) {
    const Processor p{i};
    const PageMask closed = mapped[static_cast<std::size_t>(i)] - block.state.at(p).mapped;
    for (const PageRun part : runs_of(closed)) (void)entries_.map(block, part, p);
  }
  entries_.allow_writes_if_alone(block, run, owner);
  return status;
}

void FolioSeparator::enter_again(const LockedBlock& block, Processor owner,
                                 const PageMask& except) {
  for (int i = 0; i < entries_.processors(); ++i) {
    const Processor p{i};
    if (!entries_.at(p).mapper.punch_unmaps()) continue;
    const PageMask lost = block.state.mapped_from(p, owner) - except - block.state.switching(p) -
                          block.state.in_flight();
    if (lost.none()) continue;
    if (!keeps_entries_ && (block.state.entered_whole & p.bit()) != 0) continue;
    block.state.entered_whole &= ~p.bit();
    // A page that cannot be entered now is entered by the next fault on it.
    for (const PageRun run : runs_of(lost)) (void)entries_.map(block, run, p);
  }
}

}  // namespace wherry::impl
