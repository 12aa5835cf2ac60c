#include "policy/adaptive_policy.h"

#include <algorithm>
#include <array>

namespace wherry::impl {
namespace {

// The share of a program's time that is assumed to be spent on memory accesses that miss all
// caches.
constexpr unsigned bound_percent = 50;
constexpr std::uint64_t pin_max_ns = 1'000'000'000;
constexpr unsigned doublings_max = 10;

// The history of one natural 64 KiB region.
struct Region {
  // When the region last migrated here because of a fault; 0 if not since its history began.
  std::uint64_t arrived_ns = 0;
  // Its mean residency at earlier destinations; 0 if unknown.
  std::uint64_t residency_ns = 0;
  std::uint64_t until_ns = 0;  // end of the temporary pin; 0: it is not pinned
  unsigned pins = 0;           // temporary pins since a move last paid
  std::int8_t at = -1;         // the processor that it migrated to; -1: none
};

// Ends the temporary pin, and forgets how long the region stayed, so that a move is tried again.
void begin_trial(Region& region) {
  region.until_ns = region.residency_ns = region.arrived_ns = 0;
}

struct AdaptiveHistory final : BlockHistory {
  std::array<Region, pages_per_block / pages_per_region> regions{};

  Region& of(unsigned page) { return regions[page / pages_per_region]; }
  template <typename Visit>
  void for_each(PageRun run, const Visit& visit) {
    for (unsigned i = run.first / pages_per_region; i * pages_per_region < run.end(); ++i)
      visit(regions[i]);
  }
};

AdaptiveHistory& adaptive(BlockHistory& history) {
  return static_cast<AdaptiveHistory&>(history);
}

// The pages of natural region number i.
constexpr PageRun region_run(unsigned i) {
  constexpr unsigned count = pages_per_region;
  return {i * count, count};
}

// The number of pages of the run that the faulting processor's pool does not hold.
std::uint64_t pages_to_come(const FaultFacts& facts, PageRun run) {
  return (PageMask::of(run) - facts.held).count();
}

// The pages of regions with a temporary pin.
PageMask pinned_pages(BlockHistory& history, std::uint64_t now_ns) {
  PageMask pages;
  const auto& regions = adaptive(history).regions;
  for (unsigned i = 0; i < regions.size(); ++i)
    if (regions[i].until_ns > now_ns) pages |= PageMask::of(region_run(i));
  return pages;
}

}  // namespace

AdaptivePolicy::AdaptivePolicy(const AdaptiveParameters& parameters,
                               const AccessCosts& access_costs)
    : parameters_(parameters), access_costs_(access_costs), differs_([&] {
        for (int p = 0; p < max_processors; ++p)
          for (int q = 0; q < max_processors; ++q)
            if (saved_percent(Processor{p}, Processor{q}) != 0) return true;
        return false;
      }()) {}

unsigned AdaptivePolicy::saved_percent(Processor p, Processor q) const {
  if (p == q) return 0;
  const unsigned known =
      access_costs_.percent[static_cast<std::size_t>(p.index)][static_cast<std::size_t>(q.index)];
  const unsigned percent = parameters_.far_percent != 0 ? parameters_.far_percent : known;
  return percent <= 100 ? 0 : 100 - 100 * 100 / percent;
}

PageRun AdaptivePolicy::region(const FaultFacts& facts, int& sweeps) const {
  if (!parameters_.prefetches) return {facts.page, 1};
  const PageMask stretch = PageMask::of(facts.stretch);
  const PageMask used = (facts.held | facts.mapped) & stretch;
  // This is the first use of the block, whose pages may have been brought ahead.
  if ((facts.mapped & stretch).none())
    sweeps = streams_.follow(facts.faulting_processor, facts.block.value);
  if (facts.evicted || sweeps != 0) return facts.stretch;
  const PageMask faulted = PageMask::of({facts.page, 1});
  const PageMask known =
      used | faulted | parameters_.tree.neighbours(faulted, used, {}, facts.stretch);
  if (known.count() >= pages_per_block / 2)
    streams_.note_dense(facts.faulting_processor, facts.block.value);
  return known.run_around(facts.page);
}

Opinion AdaptivePolicy::first_touch(const FaultFacts& facts, PageRun region) const {
  // A first access does not evict, because the page may never be used again. If the pool has no
  // space for the whole run, it may have space for the region.
  for (const PageRun part : {region, aligned_part(region, facts.page, pages_per_region)})
    if (facts.free_pages >= pages_to_come(facts, part))
      return {.destination = facts.faulting_processor, .region = part};
  return {.destination = Processor::host(), .region = region};
}

Opinion AdaptivePolicy::on_fault(const FaultFacts& facts,
                                 std::unique_ptr<BlockHistory>& history) const {
  // If absent pages have another processor as their preferred location, this processor's accesses
  // do not decide where they are created.
  if (facts.residents == 0 && facts.preferred && *facts.preferred != facts.faulting_processor)
    return {};
  int sweeps = 0;
  PageRun region = this->region(facts, sweeps);
  if (facts.residents == 0) return first_touch(facts, region);
  const Processor at = closest_of(facts.residents, facts.faulting_processor);
  if (at == facts.faulting_processor)
    return {.destination = at, .region = region, .sweeps = sweeps};
  const unsigned saved = saved_percent(facts.faulting_processor, at);
  if (saved == 0) return {.destination = at, .region = region};

  Region known;
  if (history) {
    Region& seen = adaptive(*history).of(facts.page);
    // The temporary pin has expired, but end_temporary_pins() has not run yet.
    if (seen.until_ns != 0 && seen.until_ns <= facts.now_ns) begin_trial(seen);
    known = seen;
    if (known.until_ns > facts.now_ns) return pin_there(facts, at, region, *history, 0);
    region = (PageMask::of(region) - pinned_pages(*history, facts.now_ns)).run_around(facts.page);
  }
  const std::uint64_t coming = pages_to_come(facts, region);
  const std::uint64_t evicted = coming - std::min(coming, facts.free_pages);
  const std::uint64_t cost_ns = facts.fault_ns + (coming + evicted) * facts.page_ns;
  const std::uint64_t gain_ns = known.residency_ns / 100 * saved / 100 * bound_percent;
  // A region whose residency is unknown is moved on trial if no page has to be evicted for it, or
  // if a temporary pin of it has ended.
  const bool pays = known.residency_ns == 0 ? evicted == 0 || known.pins != 0 : gain_ns > cost_ns;
  if (pays) {
    if (known.residency_ns != 0) adaptive(*history).of(facts.page).pins = 0;
    return {.destination = facts.faulting_processor, .region = region, .sweeps = sweeps};
  }
  if (!has_history<AdaptiveHistory>(history)) return {.destination = at, .region = region};
  return pin_there(facts, at, region, *history, cost_ns);
}

std::optional<PageRun> AdaptivePolicy::on_copy(const FaultFacts& facts) const {
  int sweeps = 0;
  const PageRun run = region(facts, sweeps);
  // Nothing is evicted for copies that may not be used.
  if (pages_to_come(facts, run) > facts.free_pages) return std::nullopt;
  return run;
}

Opinion AdaptivePolicy::pin_there(const FaultFacts& facts, Processor at, PageRun region,
                                  BlockHistory& history, std::uint64_t cost_ns) const {
  Region& known = adaptive(history).of(facts.page);
  Opinion opinion{.destination = at};
  opinion.region = aligned_part(region, facts.page, pages_per_region);
  opinion.pins = true;
  opinion.pin_begins = known.until_ns <= facts.now_ns;
  if (opinion.pin_begins) {
    const std::uint64_t length = std::min(
        (cost_ns * parameters_.stay_costs) << std::min(known.pins, doublings_max), pin_max_ns);
    known.until_ns = facts.now_ns + length;
    ++known.pins;
  }
  opinion.pin_until_ns = known.until_ns;
  return opinion;
}

ProcessorMask AdaptivePolicy::on_arrival(const Arrival& arrival,
                                         std::unique_ptr<BlockHistory>& history) const {
  if (!differs_ || arrival.is_copy || arrival.cause == MoveCause::thrash_pin) return 0;
  const bool wanted = arrival.cause == MoveCause::fault || arrival.cause == MoveCause::sample;
  // The program itself has determined the location: the earlier history says nothing about the next
  // accesses.
  if (!wanted && arrival.cause != MoveCause::eviction) {
    if (history) on_release(arrival.run, *history);
    return 0;
  }
  // The caller is in the middle of a move, which must not fail. Without memory for a history, the
  // move is not recorded.
  if (!has_history<AdaptiveHistory>(history)) return 0;
  adaptive(*history).for_each(arrival.run, [&](Region& region) {
    // More pages of the region followed to the same processor: its residency goes on.
    if (wanted && region.arrived_ns != 0 && region.at == arrival.to.index) return;
    if (region.arrived_ns != 0) {
      const std::uint64_t residency = arrival.now_ns - region.arrived_ns;
      region.residency_ns =
          region.residency_ns == 0 ? residency : (region.residency_ns + residency) / 2;
    }
    region.arrived_ns = wanted ? arrival.now_ns : 0;
    region.at = static_cast<std::int8_t>(arrival.to.index);
  });
  return 0;
}

void AdaptivePolicy::on_release(PageRun run, BlockHistory& history) const {
  adaptive(history).for_each(run, [](Region& region) { region = {}; });
}

PageMask AdaptivePolicy::end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const {
  PageMask ended;
  auto& regions = adaptive(history).regions;
  for (unsigned i = 0; i < regions.size(); ++i) {
    if (regions[i].until_ns == 0 || regions[i].until_ns > now_ns) continue;
    ended |= PageMask::of(region_run(i));
    begin_trial(regions[i]);
  }
  return ended;
}

}  // namespace wherry::impl
