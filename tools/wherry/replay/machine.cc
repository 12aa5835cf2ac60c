#include "replay/machine.h"

#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

namespace wherry::replay {
namespace {

using impl::Counters;
using impl::Fault;
using impl::FaultAttempt;
using impl::FaultFacts;
using impl::FaultPlan;
using impl::Processor;

// A waiting thread asks again after this time at the earliest, whatever a policy says.
constexpr std::uint64_t look_again_ns = 1000;

bool is_as_recorded(const Touch& touch, const Arrivals& arrivals) {
  return touch.recorded.ns != 0 && touch.recorded.arrivals == arrivals;
}

// The pages that come for a fault, and their cost in the model.
std::pair<Arrivals, double> transfer_of(const FaultPlan& plan, const CostModel& costs) {
  using impl::EventKind;
  const Processor to = plan.decision.destination;
  const auto pages = static_cast<std::uint16_t>(plan.transfer.pages.count());
  const auto transfer = [&](EventKind kind, const OperationCost& cost) {
    return std::pair(Arrivals{pages, kind, impl::index_of(to)}, cost.of(pages));
  };
  if (!plan.transfer.exists)
    return transfer(EventKind::populate,
                    to.is_host() ? costs.populate_host : costs.populate_device);
  if (plan.transfer.copy) return transfer(EventKind::duplicate, costs.duplicate);
  return transfer(EventKind::migration,
                  to.is_host() ? costs.migrate_to_host : costs.migrate_to_device);
}

}  // namespace

Machine::Machine(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy)
    : costs_(costs),
      rules_(setting.region_pages),
      blocks_(setting.blocks),
      by_address_(setting.blocks.size()),
      stretches_(setting.blocks),
      memory_(setting, costs, policy, stretches_.advice()),
      temporary_pins_(memory_.engine(), memory_.effects(), memory_.blocks(), policy,
                      Meter::last_arrival_ns),
      samples_(memory_.blocks().size()),
      attempts_(memory_.engine(), memory_.effects(), temporary_pins_, rules_, policy, &samples_,
                /*reads_ahead=*/false, measured_, Meter::last_arrival_ns),
      busy_(setting.blocks.size()) {
  std::iota(by_address_.begin(), by_address_.end(), 0u);
  std::ranges::sort(by_address_, {}, [this](std::uint32_t number) { return blocks_[number]; });
}

MachineCounts Machine::counts() const {
  MachineCounts counts = counts_;
  counts.migrations = memory_.meter().copies - duplications_;
  counts.migrated_pages = memory_.sum(&Counters::migrated_in);
  counts.mapped_pages = memory_.sum(&Counters::mapped_remotely);
  counts.duplicated_pages = memory_.sum(&Counters::duplicated);
  counts.evictions = memory_.evictions();
  return counts;
}

bool Machine::access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns) {
  if (touch.sampled || (busy_[touch.block].until_ns > now_ns && is_delayed(touch))) return false;
  Block& block = memory_.blocks().at({touch.block});
  const impl::LockGuard guard(block.lock);
  const Processor p = touch.faulting_processor;
  const Processor table = table_of(touch);
  if (!open_in(block, table, touch.write).test(touch.page)) return false;
  const Processor owner = block.view(table, touch.page);
  memory_.note_hit({touch.block}, owner);
  const double longer = costs_.read_remote_page_ns - costs_.read_local_page_ns;
  extra_ns = owner == p || longer <= 0 ? 0 : static_cast<std::uint64_t>(longer);
  return true;
}

std::optional<unsigned> Machine::first_missing(const Touch& touch, const PageMask& pages) {
  if (pages.none()) return std::nullopt;
  Block& block = memory_.blocks().at({touch.block});
  const impl::LockGuard guard(block.lock);
  const PageRun run = (pages - open_in(block, table_of(touch), touch.write)).next_run(0);
  return run.count == 0 ? std::nullopt : std::optional(run.first);
}

bool Machine::is_delayed(const Touch& touch) {
  const Busy& busy = busy_[touch.block];
  return table_of(touch) == busy.table &&
         !(touch.write ? busy.writable : busy.readable).test(touch.page);
}

impl::PageMask Machine::open_in(const Block& block, Processor table, bool write) {
  const impl::ProcessorPages& its = block.at(table);
  return write ? its.mapped - its.write_protected : its.mapped;
}

FaultFacts Machine::facts_of(const Touch& touch, const LockedBlock& block, std::uint64_t now_ns) {
  const Stretch& stretch = stretches_.at(touch.block, touch.page);
  FaultFacts facts = attempts_.facts_of(
      *touch.fault, block,
      {.now_ns = now_ns, .stretch = stretch.run, .advice = stretch.advice, .owner = stretch.owner});
  facts.block = {blocks_[touch.block]};
  facts.fault_ns = static_cast<std::uint64_t>(costs_.minor_ns);
  facts.page_ns = static_cast<std::uint64_t>(costs_.migrate_to_device.page_ns);
  return facts;
}

Answer Machine::resolve(Touch& touch, std::uint64_t now_ns) {
  const Processor p = touch.faulting_processor;
  const Processor table = table_of(touch);
  Block& state = memory_.blocks().at({touch.block});
  Busy& busy = busy_[touch.block];
  if (busy.until_ns > now_ns) {
    const impl::LockGuard guard(state.lock);
    // If the fault that is being handled brings this page, its end wakes this thread, too.
    const bool comes = is_delayed(touch) && open_in(state, table, touch.write).test(touch.page);
    if (comes) ++counts_.faults;
    return {comes, busy.until_ns};
  }
  if (const std::uint32_t wait_ns = std::exchange(touch.recorded.wait_ns, 0); wait_ns != 0)
    return {false, now_ns + wait_ns};
  memory_.begin(now_ns);
  if (!touch.fault)
    touch.fault.emplace(p, table, impl::FaultMessage{.write = touch.write},
                        impl::span_of({touch.block}, {touch.page, 1}).first,
                        Meter::last_arrival_ns);
  Fault& fault = *touch.fault;
  if (touch.recorded.arrivals.kind == impl::EventKind::migration &&
      touch.recorded.arrivals.destination == p.index)
    memory_.make_room(p, touch.recorded.arrivals.pages);
  FaultAttempt attempt;
  Arrivals arrivals;
  do {
    {
      const LockedBlock block({touch.block}, state);
      busy = {0, open_in(block.state, table, false), open_in(block.state, table, true), table};
      attempt = this->attempt(touch, block, now_ns, arrivals);
    }
    if (attempt.outcome == Outcome::waits || attempt.outcome == Outcome::not_yet) {
      fault.reservation.release();
      return {false, attempt.until_ns};
    }
    if (attempt.outcome == Outcome::space_needed &&
        !memory_.reserve(attempt.destination, attempt.pages, fault.reservation))
      fault.constraints.narrow_for_space(attempt.is_for_many);
  } while (attempt.outcome == Outcome::space_needed);
  ++counts_.faults;
  if (fault.sample) ++counts_.samples;
  touch.fault.reset();
  const std::uint64_t end_ns = memory_.meter().end_ns();
  // If no pages came, the recorded time passes for the thread alone; the block is busy for the cost
  // of a minor fault at most.
  const std::uint64_t minor_end_ns = now_ns + static_cast<std::uint64_t>(costs_.minor_ns);
  busy.until_ns = arrivals.pages != 0 ? end_ns : std::min(end_ns, minor_end_ns);
  if (!attempt.wake.empty())
    state.minimum_residency.woken(impl::run_in_block({touch.block}, attempt.wake), p, end_ns);
  for (int i = 1; i < memory_.engine().processors(); ++i) memory_.keep_free(Processor{i}, end_ns);
  return {true, end_ns};
}

FaultAttempt Machine::attempt(Touch& touch, const LockedBlock& block, std::uint64_t now_ns,
                              Arrivals& arrivals) {
  Fault& fault = *touch.fault;
  fault.allocated = Fault::Allocated{stretches_.at(touch.block, touch.page).allocation};
  const FaultFacts facts = facts_of(touch, block, now_ns);
  const FaultPlan plan = attempts_.plan(fault, block, facts);
  if (plan.kind == FaultPlan::Kind::wait) return wait(fault, plan, now_ns);
  // A live run would end the thread. The replay goes on without the page.
  if (plan.kind == FaultPlan::Kind::refuse) memory_.meter().cost_ns += costs_.minor_ns;
  if (const auto hindered = impl::FaultAttempts::hindrance(plan)) return *hindered;
  return execute(touch, block, facts, plan, arrivals);
}

FaultAttempt Machine::wait(Fault& fault, const FaultPlan& plan, std::uint64_t now_ns) {
  if (plan.waits_for != FaultPlan::WaitsFor::policy)
    return {.outcome = Outcome::waits,
            .until_ns = plan.until_ns != 0 ? plan.until_ns : now_ns + look_again_ns};
  ++counts_.throttled;
  const std::uint64_t until = std::max(plan.until_ns, now_ns + look_again_ns);
  fault.wait.throttled_ns += until - now_ns;
  return {.outcome = Outcome::waits, .until_ns = until};
}

FaultAttempt Machine::execute(Touch& touch, const LockedBlock& block, const FaultFacts& facts,
                              const FaultPlan& plan, Arrivals& arrivals) {
  Meter& meter = memory_.meter();
  const double before_ns = meter.cost_ns;
  const std::uint64_t copies = meter.copies;
  const std::uint64_t mapped = memory_.sum(&Counters::mapped_remotely);
  const std::uint64_t collapsed = memory_.sum(&Counters::collapsed);
  if (plan.kind == FaultPlan::Kind::transfer) {
    double cost_ns = 0;
    std::tie(arrivals, cost_ns) = transfer_of(plan, costs_);
    // Added before execute() copies the pages, because they arrive when this time has passed.
    meter.cost_ns += is_as_recorded(touch, arrivals) ? touch.recorded.ns : cost_ns;
  }
  const FaultAttempt attempt = attempts_.execute(*touch.fault, block, facts, plan);
  if (plan.transfer.copy) duplications_ += meter.copies - copies;
  if (memory_.sum(&Counters::collapsed) != collapsed) meter.cost_ns += costs_.collapse_ns;
  if (const std::uint64_t pages = memory_.sum(&Counters::mapped_remotely) - mapped;
      pages != 0 && arrivals.pages == 0)
    arrivals = {static_cast<std::uint16_t>(pages), impl::EventKind::remote_map,
                impl::index_of(facts.table)};
  const double cost_ns = meter.cost_ns - before_ns;
  // A fault that is handled as in the recording takes as long as it took there.
  if (is_as_recorded(touch, arrivals))
    meter.cost_ns += touch.recorded.ns - cost_ns;
  else if (cost_ns <= 0)
    meter.cost_ns += costs_.minor_ns;
  return attempt;
}

}  // namespace wherry::replay
