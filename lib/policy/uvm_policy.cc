#include "policy/uvm_policy.h"

namespace wherry::impl {
namespace {

struct UvmHistory final : BlockHistory {
  Thrashing thrashing;
};

Thrashing& thrashing_in(BlockHistory& history) {
  return static_cast<UvmHistory&>(history).thrashing;
}

}  // namespace

PageRun UvmPolicy::region(const FaultFacts& facts, Processor destination, const PageMask& thrashing,
                          int& sweeps) const {
  const PageMask faulted = PageMask::of({facts.page, 1});
  // Absent pages are created at their preferred location as one run. At any other destination than
  // the preferred location only the page itself comes: its neighbours would soon have to move
  // again.
  if (facts.preferred == destination && facts.residents == 0)
    return (PageMask::of(facts.stretch) - thrashing).run_around(facts.page);
  const bool goes_astray = facts.preferred && !(facts.preferred == destination);
  if (!parameters_.prefetches || goes_astray || !(destination == facts.faulting_processor) ||
      thrashing.test(facts.page))
    return {facts.page, 1};
  const PageMask permitted = PageMask::of(facts.stretch) - thrashing;
  // This is the first use of the block, whose pages may have been brought ahead.
  if ((facts.held & facts.mapped & permitted).none()) {
    sweeps = streams_.follow(facts.faulting_processor, facts.block.value);
    if (sweeps != 0) return permitted.run_around(facts.page);
  }
  const PageMask along = parameters_.tree.neighbours(faulted, facts.held, thrashing, facts.stretch);
  const PageMask known = (along | faulted | facts.held) & permitted;
  if (known.count() >= pages_per_block / 2)
    streams_.note_dense(facts.faulting_processor, facts.block.value);
  // Pages that are already there do not divide the run.
  return known.run_around(facts.page);
}

Opinion UvmPolicy::on_fault(const FaultFacts& facts, std::unique_ptr<BlockHistory>& history) const {
  Opinion opinion;
  const Processor usual = facts.residents == 0 ? facts.preferred.value_or(facts.faulting_processor)
                                               : facts.faulting_processor;
  PageMask thrashing;
  if (history && facts.residents != 0) {
    Thrashing& seen = thrashing_in(*history);
    const Thrashing::Hint hint =
        seen.hint({facts.page, facts.faulting_processor, facts.now_ns,
                   closest_of(facts.residents, facts.faulting_processor), facts.preferred},
                  access_costs_, parameters_.thrashing);
    thrashing = seen.thrashing();
    if (hint.kind == Thrashing::Hint::Kind::throttle) opinion.wait_until_ns = hint.until_ns;
    if (hint.kind == Thrashing::Hint::Kind::pin) {
      opinion.destination = hint.at;
      opinion.region = PageRun{facts.page, 1};
      opinion.pins = true;
      opinion.pin_begins = hint.begins;
      opinion.pin_until_ns = hint.until_ns;
      return opinion;
    }
  }
  opinion.region = region(facts, usual, thrashing, opinion.sweeps);
  return opinion;
}

std::optional<PageRun> UvmPolicy::on_copy(const FaultFacts& facts) const {
  int sweeps = 0;
  return region(facts, facts.faulting_processor, {}, sweeps);
}

ProcessorMask UvmPolicy::on_arrival(const Arrival& arrival,
                                    std::unique_ptr<BlockHistory>& history) const {
  if (!parameters_.detects_thrashing) return 0;
  switch (arrival.cause) {
    case MoveCause::fault:
    case MoveCause::sample:
      if (arrival.is_copy) break;
      // The caller is in the middle of a move, which must not fail. Without memory, the move is not
      // counted.
      if (!has_history<UvmHistory>(history)) return 0;
      return thrashing_in(*history).moved(arrival.run, arrival.to, arrival.now_ns,
                                          parameters_.thrashing);
    case MoveCause::thrash_pin:
    case MoveCause::eviction:
      return 0;  // not a move that a processor competes for
    default:
      break;
  }
  // The program itself has determined the location: the earlier history says nothing about the next
  // accesses.
  if (history) on_release(arrival.run, *history);
  return 0;
}

void UvmPolicy::on_release(PageRun run, BlockHistory& history) const {
  thrashing_in(history).forget(run);
}

PageMask UvmPolicy::end_temporary_pins(std::uint64_t now_ns, BlockHistory& history) const {
  return thrashing_in(history).unpin(now_ns);
}

}  // namespace wherry::impl
