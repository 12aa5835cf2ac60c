#include "pages/block.h"

#include "base/check.h"

namespace wherry::impl {

ProcessorMask Block::residents(unsigned page) const {
  ProcessorMask mask = 0;
  for (int p = 0; p < processors_; ++p)
    if (pages()[p].resident.test(page)) mask |= Processor{p}.bit();
  return mask;
}

ProcessorMask Block::mappers(unsigned page) const {
  ProcessorMask mask = 0;
  for (int p = 0; p < processors_; ++p)
    if (pages()[p].mapped.test(page)) mask |= Processor{p}.bit();
  return mask;
}

ProcessorMask Block::writers(unsigned page) const {
  ProcessorMask mask = mappers(page);
  for (int p = 0; p < processors_; ++p)
    if (pages()[p].write_protected.test(page)) mask &= ~Processor{p}.bit();
  return mask;
}

PageMask Block::absent() const {
  PageMask mask = all_pages;
  for (int p = 0; p < processors_; ++p) mask -= pages()[p].resident;
  return mask;
}

PageMask Block::resident_beside(Processor p) const {
  PageMask mask;
  for (int other = 0; other < processors_; ++other)
    if (other != p.index) mask |= pages()[other].resident;
  return mask;
}

Processor Block::view(Processor p, unsigned page) const {
  if (!foreign(p).test(page)) return p;
  for (int owner = 0; owner < processors_; ++owner)
    if (views_[p.index]->shown[owner].test(page)) return Processor{owner};
  WHERRY_FAIL("a foreign view without an owner");
}

PageMask Block::viewed(Processor p, Processor owner) const {
  if (owner == p) return all_pages - foreign(p);
  return views_[p.index] ? views_[p.index]->shown[owner.index] : PageMask{};
}

PageMask Block::foreign(Processor p) const {
  return views_[p.index] ? views_[p.index]->foreign : PageMask{};
}

PageMask Block::switching(Processor p) const {
  return views_[p.index] ? views_[p.index]->switching : PageMask{};
}

ProcessorViews& Block::views_of(Processor p) {
  auto& views = views_[p.index];
  if (!views) views = make_mapped<ProcessorViews>();
  return *views;
}

void Block::tidy_views(Processor p) {
  if (foreign(p).none() && switching(p).none()) views_[p.index].reset();
}

PageMask Block::duplicates() const {
  PageMask seen, twice;
  for (int p = 0; p < processors_; ++p) {
    twice |= seen & pages()[p].resident;
    seen |= pages()[p].resident;
  }
  return twice;
}

void Block::left_pool(Processor p, const PageMask& mask) {
  pages()[p.index].resident -= mask;
  for (int viewer = 0; viewer < processors_; ++viewer)
    lose_entries(Processor{viewer}, mask & viewed(Processor{viewer}, p));
}

void Block::lose_entries(Processor p, const PageMask& mask) {
  ProcessorPages& state = pages()[p.index];
  state.mapped -= mask;
  state.write_protected -= mask;
  if (!state.mapped.none()) return;
  entered_whole &= ~p.bit();
  to_enter_whole &= ~p.bit();
}

void Block::populated(Processor p, PageRun run) {
  check_at_rest(run);
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK((mask - absent()).none(), "pages {}+{} are resident already", run.first, run.count);
  pages()[p.index].resident |= mask;
}

void Block::moved(Processor from, Processor to, PageRun run) {
  check_at_rest(run);
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK(
      (mask - pages()[from.index].resident).none() && (mask & resident_beside(from)).none(),
      "pages {}+{} cannot move from processor {} to {}", run.first, run.count, from.index,
      to.index);
  left_pool(from, mask);
  pages()[to.index].resident |= mask;
}

void Block::duplicated(Processor to, PageRun run) {
  check_at_rest(run);
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK((mask & (pages()[to.index].resident | absent())).none(),
               "pages {}+{} cannot be copied to processor {}", run.first, run.count, to.index);
  for (int p = 0; p < processors_; ++p)
    WHERRY_CHECK((mask & (pages()[p].mapped - pages()[p].write_protected)).none(),
                 "pages {}+{} have copies and are writable at processor {}", run.first, run.count,
                 p);
  pages()[to.index].resident |= mask;
}

void Block::dropped(Processor p, PageRun run) {
  check_at_rest(run);
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK((mask - pages()[p.index].resident).none(), "pages {}+{} are not at processor {}",
               run.first, run.count, p.index);
  left_pool(p, mask);
}

void Block::mapped(Processor p, PageRun run, bool writable) {
  check_at_rest(run);
  const PageMask mask = PageMask::of(run);
  ProcessorPages& state = pages()[p.index];
  WHERRY_CHECK((mask - foreign(p) - state.resident).none(),
               "pages {}+{} are not in the view of processor {}", run.first, run.count, p.index);
  WHERRY_CHECK(!writable || (mask & duplicates()).none(),
               "pages {}+{} have copies and become writable at processor {}", run.first, run.count,
               p.index);
  state.mapped |= mask;
  if (writable)
    state.write_protected -= mask;
  else
    state.write_protected |= mask;
}

void Block::unmapped(Processor p, PageRun run) {
  lose_entries(p, PageMask::of(run));
}

void Block::write_protected(Processor p, PageRun run) {
  pages()[p.index].write_protected |= PageMask::of(run) & pages()[p.index].mapped;
}

void Block::writable(Processor p, PageRun run) {
  check_at_rest(run);
  WHERRY_CHECK((PageMask::of(run) & duplicates()).none(),
               "pages {}+{} have copies and become writable at processor {}", run.first, run.count,
               p.index);
  pages()[p.index].write_protected -= PageMask::of(run);
}

void Block::released(PageRun run) {
  check_at_rest(run);
  for (int p = 0; p < processors_; ++p) left_pool(Processor{p}, PageMask::of(run));
}

void Block::transfer_begun(PageRun run) {
  check_at_rest(run);
  in_flight_ |= PageMask::of(run);
}

void Block::transfer_ended(PageRun run) {
  in_flight_ -= PageMask::of(run);
}

void Block::check_at_rest(PageRun run) const {
  WHERRY_CHECK((PageMask::of(run) & in_flight_).none(), "pages {}+{} are in flight", run.first,
               run.count);
}

void Block::switch_begun(Processor p, PageRun run) {
  ProcessorViews& views = views_of(p);
  WHERRY_CHECK((views.switching & PageMask::of(run)).none(),
               "processor {}'s view of pages {}+{} is being changed already", p.index, run.first,
               run.count);
  views.switching |= PageMask::of(run);
}

void Block::switched(Processor p, PageRun run, Processor owner) {
  const PageMask mask = PageMask::of(run);
  lose_entries(p, mask);
  ProcessorViews& views = views_of(p);
  views.switching -= mask;
  views.foreign -= mask;
  for (PageMask& shown : views.shown) shown -= mask;
  if (owner != p) {
    views.foreign |= mask;
    views.shown[owner.index] |= mask;
  }
  tidy_views(p);
}

void Block::switch_failed(Processor p, PageRun run) {
  views_of(p).switching -= PageMask::of(run);
  tidy_views(p);
}

void Block::unmapped(Processor p) {
  lose_entries(p, all_pages);
  ProcessorViews& views = views_of(p);
  views.foreign = PageMask{};
  views.shown.fill({});
  tidy_views(p);
}

void Block::check_invariants() const {
  const PageMask several = duplicates();
  for (int p = 0; p < processors_; ++p) {
    const ProcessorPages& state = pages()[p];
    for (int owner = 0; owner < processors_; ++owner)
      WHERRY_CHECK((mapped_from(Processor{p}, Processor{owner}) - pages()[owner].resident).none(),
                   "processor {} maps a page that processor {} does not hold", p, owner);
    WHERRY_CHECK((several & (state.mapped - state.write_protected)).none(),
                 "processor {} may write a page that has copies", p);
    WHERRY_CHECK((state.write_protected - state.mapped).none(),
                 "processor {} write-protects a page that it does not map", p);
  }
}

}  // namespace wherry::impl
