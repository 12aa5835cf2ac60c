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

PageMask Block::absent() const {
  PageMask mask = PageMask::of({0, pages_per_block});
  for (int p = 0; p < processors_; ++p) mask -= pages()[p].resident;
  return mask;
}

void Block::populated(Processor p, PageRun run) {
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK((mask - absent()).none(), "pages {}+{} are resident already", run.first, run.count);
  pages()[p.index].resident |= mask;
  pages()[p.index].mapped |= mask;
}

void Block::moved(Processor from, Processor to, PageRun run) {
  const PageMask mask = PageMask::of(run);
  ProcessorPages& source = pages()[from.index];
  ProcessorPages& target = pages()[to.index];
  WHERRY_CHECK((mask - source.resident).none() && (mask & target.resident).none(),
               "pages {}+{} do not move from processor {} to {}", run.first, run.count, from.index,
               to.index);
  source.resident -= mask;
  source.mapped -= mask;
  target.resident |= mask;
  target.mapped |= mask;
}

void Block::mapped(Processor p, PageRun run) {
  const PageMask mask = PageMask::of(run);
  WHERRY_CHECK((mask - pages()[p.index].resident).none(), "pages {}+{} are not at processor {}",
               run.first, run.count, p.index);
  pages()[p.index].mapped |= mask;
}

void Block::unmapped(Processor p) {
  pages()[p.index].mapped = PageMask{};
}

void Block::released(PageRun run) {
  const PageMask mask = PageMask::of(run);
  for (int p = 0; p < processors_; ++p) {
    pages()[p].resident -= mask;
    pages()[p].mapped -= mask;
  }
}

void Block::check_invariants() const {
  PageMask seen;
  for (int p = 0; p < processors_; ++p) {
    const ProcessorPages& state = pages()[p];
    WHERRY_CHECK((state.mapped - state.resident).none(), "processor {} maps what it does not hold",
                 p);
    WHERRY_CHECK((state.resident & seen).none(), "a page has two owners, one of them {}", p);
    seen |= state.resident;
  }
}

}  // namespace wherry::impl
