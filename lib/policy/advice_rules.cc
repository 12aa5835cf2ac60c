#include "policy/advice_rules.h"

#include <algorithm>

namespace wherry::impl {
namespace {

// A stretch with fewer than 1 / dense_share of its pages present is sparse.
constexpr unsigned dense_share = 4;

unsigned creation_grain(const FaultFacts& facts) {
  const bool sparse = facts.present < facts.stretch.count / dense_share;
  return sparse ? std::min<unsigned>(facts.grain, pages_per_region) : facts.grain;
}
unsigned grain_of(const FaultFacts& facts) {
  return facts.residents == 0 ? creation_grain(facts) : facts.grain;
}

// Whether absent pages of the region are created at `to`. They are only created at the destination
// of a first access (`at_first_touch`), and never if they are pinned, because pinned pages are
// created one at a time.
bool fills(const FaultFacts& facts, Processor to, Processor at_first_touch) {
  if (facts.grain == 1 || facts.pinned || facts.grain > creation_grain(facts)) return false;
  return at_first_touch == to;
}

PageRun join(PageRun a, PageRun b) {
  const unsigned first = std::min(a.first, b.first);
  return {first, std::max(a.end(), b.end()) - first};
}

}  // namespace

AdviceRules::Place AdviceRules::place(const FaultFacts& facts, const Opinion& opinion) {
  const Processor faulting_processor = facts.faulting_processor;
  const auto holds = [&](Processor p) { return (facts.residents & p.bit()) != 0; };
  const Place wanted = opinion.destination ? Place{*opinion.destination, Reason::policy}
                                           : Place{faulting_processor, Reason::faulting_processor};
  if (facts.pinned && facts.residents != 0)
    return {closest_of(facts.residents, Processor::host()), Reason::pinned};
  if (facts.read_mostly) {
    // Processors with one page table can map only one copy.
    const ProcessorMask near = facts.residents & facts.sharing();
    return {near != 0 ? closest_of(near, faulting_processor) : faulting_processor,
            Reason::read_mostly};
  }
  if (facts.preferred == faulting_processor) return {faulting_processor, Reason::preferred};
  if (facts.residents == 0)
    return facts.preferred ? Place{*facts.preferred, Reason::preferred} : wanted;
  // Every processor can map every pool, so the preferred location needs no check.
  if (facts.preferred && holds(*facts.preferred)) return {*facts.preferred, Reason::preferred};
  if ((facts.accessed_by & faulting_processor.bit()) != 0)
    return {closest_of(facts.residents, faulting_processor), Reason::accessed_by};
  if (opinion.pins && opinion.destination) return {*opinion.destination, Reason::temporary_pin};
  return holds(faulting_processor) ? Place{faulting_processor, Reason::resident} : wanted;
}

PageRun AdviceRules::region(const FaultFacts& facts, const Opinion& opinion, bool only_maps) const {
  const auto aligned = [&](unsigned pages) {
    return aligned_part(facts.stretch, facts.page, pages);
  };
  const PageRun usual = aligned(std::max(region_pages_, grain_of(facts)));
  if (!opinion.region) return usual;
  const bool is_more = only_maps || facts.read_mostly;
  return join(*opinion.region, is_more ? usual : aligned(grain_of(facts)));
}

Decision AdviceRules::decide(const FaultFacts& facts, const Opinion& opinion) const {
  Decision decision;
  decision.wait_until_ns = opinion.wait_until_ns;
  decision.speculates = opinion.region.has_value();
  const auto [at, reason] = place(facts, opinion);
  decision.destination = at;
  decision.reason = reason;
  decision.duplicate = facts.read_mostly && !facts.write && !facts.pinned;
  if (at == facts.faulting_processor && facts.is_managed && !facts.preferred &&
      facts.accessed_by == 0 && !facts.pinned && !facts.read_mostly)
    decision.sweeps = opinion.sweeps;
  const bool pins = opinion.pins && opinion.destination == decision.destination;
  if (pins) {
    decision.cause = MoveCause::thrash_pin;
    decision.pin_begins = opinion.pin_begins;
    decision.pin_until_ns = opinion.pin_until_ns;
  }
  const bool returns = facts.evicted && facts.residents != 0 && !opinion.region &&
                       decision.destination == facts.faulting_processor;
  // Whether the pages are only mapped remotely. Then at least the usual region is mapped, even if
  // the policy chose less: it costs as much as mapping one page.
  const bool only_maps = decision.destination != facts.faulting_processor && !pins &&
                         (facts.residents & decision.destination.bit()) != 0;
  // The program wants the pages to stay where they are, and one remote mapping of the whole stretch
  // costs no more than one of a part. (A coarse grain may create pages in the region.)
  const bool stays_elsewhere =
      facts.pinned ? decision.destination != facts.faulting_processor
                   : only_maps && facts.grain == 1 &&
                         (reason == Reason::preferred || reason == Reason::accessed_by);
  // Each change of the pools that a page table shows divides mappings, so it is made for whole
  // blocks.
  const bool changes_table =
      facts.moves_blocks && ((facts.residents | decision.destination.bit()) & facts.coherent) != 0;
  decision.region = returns || stays_elsewhere || changes_table ? facts.stretch
                                                                : region(facts, opinion, only_maps);
  FaultFacts first_touch = facts;
  first_touch.residents = 0;
  decision.fills = fills(facts, decision.destination, place(first_touch, opinion).at);
  return decision;
}

}  // namespace wherry::impl
