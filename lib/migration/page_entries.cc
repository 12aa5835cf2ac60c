#include "migration/page_entries.h"

#include "base/check.h"
#include "base/clock.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

constexpr PageRun whole_block{0, pages_per_block};

}  // namespace

OpStatus PageEntries::protect(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors(); ++i) {
    const Processor p{i};
    const PageMask open =
        (wanted & block.state.mapped_from(p, owner)) - block.state.at(p).write_protected;
    for (const PageRun part : runs_of(open)) {
      const OpStatus status = at(p).mapper.write_protect(block.span_of(part), block.waiter).status;
      // A process that has ended cannot write.
      if (status != OpStatus::ok && status != OpStatus::process_gone) {
        lift_protection(block, part, p);
        return status;
      }
      block.state.write_protected(p, part);
    }
  }
  return OpStatus::ok;
}

OpStatus PageEntries::close(const LockedBlock& block, PageRun run, Processor owner) {
  unmap_everywhere(block, PageMask::of(run), owner);
  return protect(block, run, owner);
}

void PageEntries::unmap_everywhere(const LockedBlock& block, const PageMask& pages,
                                   Processor owner) {
  for (int i = 0; i < processors(); ++i)
    if (const Processor p{i}; !at(p).mapper.punch_unmaps())
      unmap(block, pages & block.state.mapped_from(p, owner), p);
}

void PageEntries::unmap(const LockedBlock& block, const PageMask& pages, Processor p) {
  if (at(p).mapper.punch_unmaps()) return;
  for (const PageRun run : runs_of(pages & block.state.at(p).mapped)) {
    const OpStatus status = at(p).mapper.unmap(block.span_of(run), block.waiter).status;
    // A processor that can still access them would create pages that are in no block's state.
    WHERRY_CHECK(status == OpStatus::ok || status == OpStatus::process_gone,
                 "pages {}+{} of block {} cannot be taken from processor {}: {}", run.first,
                 run.count, block.index.value, p.index, to_string(status));
    block.state.unmapped(p, run);
  }
}

void PageEntries::allow_writes(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask wanted = PageMask::of(run);
  for (int i = 0; i < processors(); ++i) {
    const Processor p{i};
    const PageMask closed =
        wanted & block.state.mapped_from(p, owner) & block.state.at(p).write_protected;
    for (const PageRun part : runs_of(closed)) {
      block.state.writable(p, part);
      lift_protection(block, part, p);
    }
  }
}

void PageEntries::lift_protection(const LockedBlock& block, PageRun run, Processor p) const {
  // A failure is ignored: a page that stays protected faults once more, and is unprotected then.
  for (int attempt = 0; attempt < attempts_max; ++attempt)
    if (at(p).mapper.write_unprotect(block.span_of(run), block.waiter).status !=
        OpStatus::incomplete)
      return;
}

std::optional<Processor> PageEntries::whole_owner(const LockedBlock& block, Processor p) const {
  const Processor owner = block.state.view(p, 0);
  const PageMask all = PageMask::of(whole_block);
  const bool is_whole = table_of(owner) == p && at(owner).file.maps_huge_pages() &&
                        block.state.at(owner).resident == all &&
                        block.state.resident_beside(owner).none() &&
                        block.state.in_flight().none() && block.state.viewed(p, owner) == all &&
                        block.state.switching(p).none();
  return is_whole ? std::optional(owner) : std::nullopt;
}

bool PageEntries::is_scattered(const LockedBlock& block, Processor p) const {
  return block.state.at(p).mapped == PageMask::of(whole_block) &&
         (block.state.entered_whole & p.bit()) == 0 && whole_owner(block, p);
}

void PageEntries::note_if_scattered(const LockedBlock& block, Processor p) {
  if (is_scattered(block, p)) scattered_blocks_.note(block, now_ns());
}

bool PageEntries::prepare_huge_entry(const LockedBlock& block, Processor owner) {
  const Processor p = table_of(owner);
  if (!is_scattered(block, p)) return false;
  allow_writes(block, whole_block, owner);  // protections that remain from former copies
  block.state.to_enter_whole |= p.bit();
  return true;
}

std::optional<PageRun> PageEntries::begin_sample(const LockedBlock& block, Processor p,
                                                 unsigned page) {
  const ProcessorPages& here = block.state.at(p);
  const bool is_changing = !block.state.in_flight().none() || !block.state.switching(p).none();
  if (is_changing || !here.write_protected.none() || (block.state.to_enter_whole & p.bit()) != 0)
    return std::nullopt;
  if ((block.state.entered_whole & p.bit()) == 0) {
    const PageRun after = here.mapped.next_run(page);
    const PageRun first = after.count != 0 ? after : here.mapped.next_run(0);
    return first.count != 0 ? std::optional(PageRun{first.first, 1}) : std::nullopt;
  }
  if (!whole_owner(block, p)) return std::nullopt;
  block.state.to_enter_whole |= p.bit();
  block.state.entered_whole &= ~p.bit();
  return whole_block;
}

bool PageEntries::is_bare(const LockedBlock& block, Processor p) const {
  const ProcessorPages& here = block.state.at(p);
  const bool prepared = (block.state.to_enter_whole & p.bit()) != 0 && here.write_protected.none();
  return (here.mapped.none() || prepared) && whole_owner(block, p);
}

bool PageEntries::finish_huge_entry(const LockedBlock& block, Processor owner) {
  const Processor p = table_of(owner);
  const bool changed = !whole_owner(block, p);
  const bool mapped = enter_whole(block, p);
  block.state.to_enter_whole &= ~p.bit();
  if (changed) (void)restore(block, owner);
  if (changed || (block.state.entered_whole & p.bit()) != 0) return true;
  // Without small entries, threads would fault on each page.
  if (!mapped) (void)map(block, whole_block, p);
  return false;
}

bool PageEntries::restore(const LockedBlock& block, Processor owner, bool is_repeated) {
  bool is_complete = true;
  for (int i = 0; i < processors(); ++i) {
    const Processor p{i};
    // With mprotect, Linux enters accessible pages again by itself.
    if (!at(p).mapper.punch_unmaps()) continue;
    // A huge entry comes back as a whole with the first fault, or is about to come.
    const ProcessorMask whole = block.state.entered_whole | block.state.to_enter_whole;
    if (p == table_of(owner) && (whole & p.bit()) != 0) continue;
    const PageMask lost =
        block.state.mapped_from(p, owner) - block.state.switching(p) - block.state.in_flight();
    if (lost.none()) continue;
    // If the first entry is there, Linux has removed none.
    if (!is_repeated) {
      const OpStatus first = enter_taken(block, lost.next_run(0).first, p);
      if (first == OpStatus::incomplete) is_complete = false;
      if (first != OpStatus::ok) continue;
    }
    const PageMask several = lost & block.state.resident_beside(owner);
    for (const bool writable : {true, false}) {
      // A page that cannot be entered now is entered by the next fault on it.
      for (const PageRun run : runs_of(writable ? lost - several : several))
        if (enter(block, run, p, writable) == OpStatus::incomplete) is_complete = false;
    }
  }
  return is_complete;
}

bool PageEntries::enter_whole(const LockedBlock& block, Processor p) {
  if (!is_bare(block, p)) return false;
  const OpStatus status = at(p).mapper.map_whole(block_span(block.index), block.waiter).status;
  if (status == OpStatus::process_gone || status == OpStatus::unsupported) return false;
  // All pages count as mapped, also where the huge entry was refused: threads that accessed pages
  // meanwhile have entries.
  block.state.mapped(p, whole_block, true);
  const bool was_prepared = (block.state.to_enter_whole & p.bit()) != 0;
  block.state.to_enter_whole &= ~p.bit();
  if (status == OpStatus::ok) {
    block.state.entered_whole |= p.bit();
    return true;
  }
  block.state.entered_whole &= ~p.bit();
  if (!was_prepared) note_if_scattered(block, p);
  return status == OpStatus::occupied;
}

bool PageEntries::was_entered_whole(const LockedBlock& block, Processor p) const {
  return (block.state.entered_whole & p.bit()) != 0 && !at(p).mapper.punch_unmaps() &&
         block.state.at(p).mapped == PageMask::of(whole_block);
}

bool PageEntries::enter_whole_again(const LockedBlock& block, Processor p) {
  if (!was_entered_whole(block, p)) return false;
  block.state.to_enter_whole |= p.bit();
  const bool mapped = enter_whole(block, p);
  block.state.to_enter_whole &= ~p.bit();
  note_if_scattered(block, p);
  return mapped;
}

void PageEntries::allow_writes_if_alone(const LockedBlock& block, PageRun run, Processor owner) {
  const PageMask alone =
      PageMask::of(run) - block.state.resident_beside(owner) - block.state.in_flight();
  for (const PageRun part : runs_of(alone)) allow_writes(block, part, owner);
}

OpStatus PageEntries::enter(const LockedBlock& block, PageRun run, Processor p, bool writable) {
  const PageSpan span = block.span_of(run);
  std::uint64_t done = 0;
  OpStatus status = OpStatus::incomplete;
  for (int attempt = 0; attempt < attempts_max && done < span.count; ++attempt) {
    const OpResult result = at(p).mapper.map_resident(rest_of(span, done), !writable, block.waiter);
    done += result.bytes / page_size;
    status = result.status;
    if (result.bytes != 0) {
      attempt = 0;
      // Where Linux makes a small entry there is no huge one. With page protection, map_resident()
      // makes no entry.
      if (at(p).mapper.punch_unmaps()) block.state.entered_whole &= ~p.bit();
    }
    if (status == OpStatus::occupied) {
      // The page is mapped already, which is as good if the protection is right.
      if (!writable)
        status = at(p).mapper.write_protect({span.first + done, 1}, block.waiter).status;
      if (!writable && status != OpStatus::ok) break;
      ++done;
      attempt = 0;
    } else if (status != OpStatus::ok && status != OpStatus::incomplete) {
      break;
    }
  }
  if (done != 0) block.state.mapped(p, {run.first, static_cast<unsigned>(done)}, writable);
  return done == span.count ? OpStatus::ok : status;
}

bool PageEntries::was_taken(const LockedBlock& block, unsigned page, Processor p) {
  return enter_taken(block, page, p) == OpStatus::ok;
}

OpStatus PageEntries::enter_taken(const LockedBlock& block, unsigned page, Processor p) {
  const bool has_copies = block.state.resident_beside(block.state.view(p, page)).test(page);
  const PageRun run{page, 1};
  const OpStatus status =
      at(p).mapper.map_resident(block.span_of(run), has_copies, block.waiter).status;
  if (status != OpStatus::ok) return status;
  // A protection from former copies is gone. If the state still had it, the next transfer would not
  // protect the page.
  if (!has_copies) block.state.writable(p, run);
  return OpStatus::ok;
}

OpResult PageEntries::map(const LockedBlock& block, PageRun run, Processor p) {
  const Processor owner = block.state.view(p, run.first);
  const PageMask wanted = PageMask::of(run);
  if (!(wanted & (block.state.switching(p) | block.state.in_flight())).none())
    return {OpStatus::incomplete, 0};
  const PageMask several = wanted & block.state.resident_beside(owner);
  for (const bool writable : {true, false}) {
    for (const PageRun part : runs_of(writable ? wanted - several : several)) {
      const PageMask fresh = PageMask::of(part) - block.state.at(p).mapped;
      const OpStatus status = enter(block, part, p, writable);
      if (status != OpStatus::ok) return {status, 0};
      if (owner == p) continue;
      count(at(p).counters.mapped_remotely, fresh.count());
      if (!is_recorded(EventKind::remote_map)) continue;
      for (const PageRun seen : runs_of(fresh))
        recorder_.record({EventKind::remote_map, MoveCause::none, owner, p}, block.index, seen);
    }
  }
  note_if_scattered(block, p);
  return {OpStatus::ok, block.span_of(run).bytes()};
}

}  // namespace wherry::impl
