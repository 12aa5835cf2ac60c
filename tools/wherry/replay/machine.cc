#include "replay/machine.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

namespace wherry::replay {
namespace {

using impl::Decision;
using impl::FaultFacts;
using impl::PageSpan;
using impl::Processor;

// Nobody asks again sooner, whatever a policy says.
constexpr std::uint64_t look_again_ns = 1000;

bool is_as_recorded(const Touch& touch, const Arrivals& arrivals) {
  return touch.recorded.ns != 0 && touch.recorded.arrivals == arrivals;
}

}  // namespace

Machine::Machine(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy)
    : costs_(costs),
      policy_(policy),
      rules_(setting.region_pages),
      blocks_(setting.blocks),
      by_address_(setting.blocks.size()),
      stretches_(setting.blocks),
      engine_(setting, costs, policy, stretches_),
      busy_(setting.blocks.size()) {
  std::iota(by_address_.begin(), by_address_.end(), 0u);
  std::ranges::sort(by_address_, {}, [this](std::uint32_t number) { return blocks_[number]; });
}

bool Machine::access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns) {
  if (const Busy& busy = busy_[touch.block]; busy.until_ns > now_ns && busy.brings(touch))
    return false;
  Block& block = engine_.block(touch.block);
  const impl::LockGuard guard(block.lock);
  const Processor p = touch.faulting_processor;
  if (!open_to(block, p, touch.write).test(touch.page)) return false;
  const Processor owner = block.view(p, touch.page);
  engine_.note_hit(touch.block, owner);
  const double longer = costs_.read_remote_page_ns - costs_.read_local_page_ns;
  extra_ns = owner == p || longer <= 0 ? 0 : static_cast<std::uint64_t>(longer);
  return true;
}

std::optional<unsigned> Machine::first_missing(const Touch& touch, const PageMask& pages) {
  Block& block = engine_.block(touch.block);
  const impl::LockGuard guard(block.lock);
  const PageRun run = (pages - open_to(block, touch.faulting_processor, touch.write)).next_run(0);
  return run.count == 0 ? std::nullopt : std::optional(run.first);
}

impl::PageMask Machine::open_to(const Block& block, Processor p, bool write) {
  const impl::ProcessorPages& its = block.at(p);
  return write ? its.mapped - its.write_protected : its.mapped;
}

FaultFacts Machine::facts_of(const Touch& touch, const Block& block, std::uint64_t now_ns) {
  const Stretch& stretch = stretches_.at(touch.block, touch.page);
  FaultFacts facts;
  facts.faulting_processor = touch.faulting_processor;
  facts.block = {blocks_[touch.block]};
  facts.page = touch.page;
  facts.processors = engine_.processors();
  facts.write = touch.write;
  facts.now_ns = now_ns;
  facts.residents = block.residents(touch.page);
  facts.read_mostly = stretch.advice.read_mostly;
  if (!stretch.advice.preferred.is_none()) facts.preferred = stretch.advice.preferred.processor();
  if (stretch.owner) facts.preferred = stretch.owner;
  facts.accessed_by = stretch.advice.accessed_by;
  facts.pinned = stretch.advice.pinned;
  facts.stretch = stretch.run;
  facts.evicted = !touch.constraints.region_only &&
                  (block.evicted_from & touch.faulting_processor.bit()) != 0 &&
                  impl::Replacement::returns_as_one(
                      facts.stretch, engine_.capacity_pages(touch.faulting_processor));
  facts.held = block.at(touch.faulting_processor).resident;
  facts.free_pages = engine_.spare_pages(touch.faulting_processor);
  facts.mapped = block.at(touch.faulting_processor).mapped;
  facts.fault_ns = static_cast<std::uint64_t>(costs_.minor_ns);
  facts.page_ns = static_cast<std::uint64_t>(costs_.migrate_to_device.page_ns);
  return facts;
}

Answer Machine::resolve(Touch& touch, std::uint64_t now_ns) {
  const auto minor_ns = static_cast<std::uint64_t>(costs_.minor_ns);
  const Processor p = touch.faulting_processor;
  Block& state = engine_.block(touch.block);
  Busy& busy = busy_[touch.block];
  if (busy.until_ns > now_ns) {
    const impl::LockGuard guard(state.lock);
    // Threads that wait for the same pages are woken together.
    const bool comes = busy.brings(touch) && open_to(state, p, touch.write).test(touch.page);
    if (comes) ++engine_.counts().faults;
    return {comes, busy.until_ns};
  }
  if (const std::uint32_t wait_ns = std::exchange(touch.recorded.wait_ns, 0); wait_ns != 0)
    return {false, now_ns + wait_ns};
  engine_.begin(now_ns);
  Attempt attempt;
  PageMask opened;
  for (;;) {
    {
      const LockedBlock block({touch.block}, state);
      const PageMask read = open_to(block.state, p, false);
      const PageMask written = open_to(block.state, p, true);
      attempt = this->attempt(touch, block, now_ns);
      opened = (open_to(block.state, p, false) - read) | (open_to(block.state, p, true) - written);
    }
    if (attempt.outcome == Attempt::Outcome::again) return {false, attempt.time_ns};
    if (attempt.outcome == Attempt::Outcome::resolved) break;
    if (engine_.evict_for(attempt.at, attempt.pages)) continue;
    // First without what should come with the page.
    touch.constraints.no_space =
        touch.constraints.region_only || attempt.pages <= impl::pages_per_region;
    touch.constraints.region_only = true;
  }
  ++engine_.counts().faults;
  const std::uint64_t end_ns = now_ns + engine_.cost_ns();
  // If nothing came, the recorded time passed for the thread, and the block was not in use.
  busy = {attempt.pages != 0 ? end_ns : std::min(end_ns, now_ns + minor_ns), opened, p};
  state.minimum_residency.woken(attempt.region, p, end_ns);
  engine_.begin(end_ns);
  for (int i = 1; i < engine_.processors(); ++i) engine_.keep_free(Processor{i});
  return {true, end_ns};
}

Decision Machine::decide(const Touch& touch, const LockedBlock& block, const FaultFacts& facts) {
  impl::Opinion opinion;
  if (impl::AdviceRules::leaves_room(facts)) opinion = policy_.on_fault(facts, block.state.history);
  if (touch.constraints.region_only && opinion.region)
    opinion.region = impl::aligned_part(*opinion.region, facts.page, impl::pages_per_region);
  return rules_.decide(facts, opinion);
}

Machine::Attempt Machine::attempt(Touch& touch, const LockedBlock& block, std::uint64_t now_ns) {
  const FaultFacts facts = facts_of(touch, block.state, now_ns);
  const Decision decision = decide(touch, block, facts);
  if (decision.pin_begins && decision.pin_until_ns != 0)
    temporary_pins_.push({decision.pin_until_ns, touch.block, decision.region});
  impl::FaultConstraints constraints = touch.constraints;
  constraints.no_throttling = touch.throttled_ns >= impl::throttle_limit_ns;
  for (;;) {
    const impl::FaultPlan plan = impl::plan_fault(block.state, facts, decision, constraints);
    switch (plan.kind) {
      case impl::FaultPlan::Kind::wait:
        return wait(touch, plan, now_ns);
      case impl::FaultPlan::Kind::reserve:
        if (reserve(plan, facts, constraints)) continue;
        return {.outcome = Attempt::Outcome::room_needed,
                .at = plan.decision.destination,
                .pages = plan.pages};
      default:
        return execute(touch, block, facts, plan);
    }
  }
}

Machine::Attempt Machine::wait(Touch& touch, const impl::FaultPlan& plan, std::uint64_t now_ns) {
  if (plan.waits_for != impl::FaultPlan::WaitsFor::policy) {
    touch.constraints.region_only = true;
    return {.outcome = Attempt::Outcome::again, .time_ns = plan.until_ns};
  }
  ++engine_.counts().throttled;
  const std::uint64_t until = std::max(plan.until_ns, now_ns + look_again_ns);
  touch.throttled_ns += until - now_ns;
  return {.outcome = Attempt::Outcome::again, .time_ns = until};
}

bool Machine::reserve(const impl::FaultPlan& plan, const FaultFacts& facts,
                      impl::FaultConstraints& constraints) {
  if (plan.pages != 0) {
    const Processor to = plan.decision.destination;
    // Where no pool has space, a live run would end the thread. The replay goes on.
    if (!engine_.has_space(to, plan.pages) && !constraints.no_space) return false;
    constraints.reserved_at = to;
    constraints.reserved = plan.pages;
    return true;
  }
  for (const PageRun wanted : {plan.decision.region, PageRun{facts.page, 1}}) {
    constraints.space_for = wanted;
    for (int i = 0; i < engine_.processors(); ++i) {
      constraints.space_at = Processor{i};
      if (engine_.has_space(Processor{i}, wanted.count)) return true;
    }
  }
  return true;
}

Machine::Attempt Machine::execute(const Touch& touch, const LockedBlock& block,
                                  const FaultFacts& facts, const impl::FaultPlan& plan) {
  const Decision& decision = plan.decision;
  const double before = static_cast<double>(engine_.cost_ns());
  const std::uint64_t mapped = engine_.counts().mapped_pages;
  Arrivals arrivals;
  if (plan.kind == impl::FaultPlan::Kind::transfer) transfer_pages(touch, block, plan, arrivals);
  if (plan.begins_residency)
    block.state.minimum_residency.begin(decision.region, facts.faulting_processor, facts.now_ns);
  if (plan.ends_copies) engine_.collapse(block, decision.region, decision.destination);
  show(touch, block, decision);
  follow(block, decision.region);
  if (const std::uint64_t pages = engine_.counts().mapped_pages - mapped;
      pages != 0 && arrivals.pages == 0)
    arrivals = {static_cast<std::uint16_t>(pages), impl::EventKind::remote_map,
                impl::index_of(facts.faulting_processor)};
  const double cost = static_cast<double>(engine_.cost_ns()) - before;
  // What happens as it was recorded takes as long as it took.
  if (is_as_recorded(touch, arrivals))
    engine_.add_cost(touch.recorded.ns - cost);
  else if (cost <= 0)
    engine_.add_cost(costs_.minor_ns);
  return {
      .outcome = Attempt::Outcome::resolved, .pages = arrivals.pages, .region = decision.region};
}

void Machine::transfer_pages(const Touch& touch, const LockedBlock& block,
                             const impl::FaultPlan& plan, Arrivals& arrivals) {
  using impl::EventKind;
  const Processor to = plan.decision.destination;
  const auto [exists, copy, from, wanted] = plan.transfer;
  const std::uint64_t pages = wanted.count();
  arrivals.pages = static_cast<std::uint16_t>(pages);
  arrivals.kind = !exists ? EventKind::populate
                  : copy  ? EventKind::duplicate
                          : EventKind::migration;
  arrivals.destination = impl::index_of(to);
  const OperationCost& populates = to.is_host() ? costs_.populate_host : costs_.populate_device;
  const OperationCost& migrates = to.is_host() ? costs_.migrate_to_host : costs_.migrate_to_device;
  const OperationCost& cost = !exists ? populates : copy ? costs_.duplicate : migrates;
  // Before the pages come: they arrive at the end of it.
  engine_.add_cost(is_as_recorded(touch, arrivals) ? touch.recorded.ns : cost.of(pages));
  for (const PageRun run : impl::runs_of(wanted)) {
    if (!exists)
      engine_.populate(block, run, to);
    else if (copy)
      engine_.duplicate(block, run, from, to, plan.decision.cause);
    else
      engine_.migrate(block, run, from, to, plan.decision.cause);
  }
}

void Machine::show(const Touch& touch, const LockedBlock& block, const Decision& decision) {
  const Processor p = touch.faulting_processor;
  const Processor at = decision.destination;
  const PageMask region = PageMask::of(decision.region);
  if (block.state.view(p, touch.page) != at)
    engine_.show(block, region & block.state.at(at).resident, p);
  const Processor seen = block.state.view(p, touch.page);
  engine_.note_access(block, seen);
  engine_.map(block, (region & block.state.viewed(p, seen)) - block.state.at(p).mapped, p);
}

void Machine::follow(const LockedBlock& block, PageRun run) {
  if (!stretches_.advises()) return;
  const auto number = static_cast<std::uint32_t>(block.index.value);
  const impl::Advice& advice = stretches_.at(number, run.first).advice;
  if (advice.read_mostly) return;
  for (int i = 0; i < engine_.processors(); ++i) {
    const Processor p{i};
    const bool fetches = !advice.preferred.is_none() && advice.preferred.processor() == p;
    if ((advice.accessed_by & p.bit()) != 0 && !fetches) engine_.show(block, PageMask::of(run), p);
  }
}

void Machine::end_due_pins(std::uint64_t now_ns) {
  while (!temporary_pins_.empty() && temporary_pins_.top().until_ns <= now_ns) {
    const TemporaryPin pin = temporary_pins_.top();
    temporary_pins_.pop();
    const LockedBlock block({pin.block}, engine_.block(pin.block));
    PageMask pages = PageMask::of(pin.run);
    if (block.state.history)
      pages |= policy_.end_temporary_pins(pin.until_ns, *block.state.history);
    for (const PageRun run : impl::runs_of(pages)) {
      const impl::ProcessorMask advised = stretches_.at(pin.block, run.first).advice.accessed_by;
      for (int i = 0; i < engine_.processors(); ++i)
        if ((advised & Processor{i}.bit()) == 0)
          engine_.send_home(block, PageMask::of(run), Processor{i});
    }
  }
}

}  // namespace wherry::replay
