#include "replay/machine.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "policy/transfer_plan.h"

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
      books_(setting, costs, policy, stretches_),
      busy_(setting.blocks.size()) {
  std::iota(by_address_.begin(), by_address_.end(), 0u);
  std::ranges::sort(by_address_, {}, [this](std::uint32_t number) { return blocks_[number]; });
}

bool Machine::access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns) {
  if (const Busy& busy = busy_[touch.block]; busy.until_ns > now_ns && busy.brings(touch))
    return false;
  Block& block = books_.block(touch.block);
  const impl::LockGuard guard(block.lock);
  if (!open_to(block, touch.faulting_processor, touch.write).test(touch.page)) return false;
  const Processor owner = block.view(touch.faulting_processor, touch.page);
  books_.note_hit(touch.block, owner);
  const double longer = costs_.read_remote_page_ns - costs_.read_local_page_ns;
  extra_ns =
      owner == touch.faulting_processor || longer <= 0 ? 0 : static_cast<std::uint64_t>(longer);
  return true;
}

std::optional<unsigned> Machine::first_missing(const Touch& touch, const PageMask& pages) {
  Block& block = books_.block(touch.block);
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
  facts.block = blocks_[touch.block];
  facts.page = touch.page;
  facts.processors = books_.processors();
  facts.write = touch.write;
  facts.now_ns = now_ns;
  facts.residents = block.residents(touch.page);
  facts.read_mostly = stretch.advice.read_mostly;
  if (!stretch.advice.preferred.is_none()) facts.preferred = stretch.advice.preferred.processor();
  if (stretch.owner) facts.preferred = stretch.owner;
  facts.accessed_by = stretch.advice.accessed_by;
  facts.pinned = stretch.advice.pinned;
  facts.stretch = stretch.run;
  facts.evicted = !touch.comes_alone &&
                  (block.evicted_from & touch.faulting_processor.bit()) != 0 &&
                  impl::Replacement::returns_as_one(
                      facts.stretch, books_.capacity_pages(touch.faulting_processor));
  facts.held = block.at(touch.faulting_processor).resident;
  facts.free_pages = books_.spare_pages(touch.faulting_processor);
  facts.mapped = block.at(touch.faulting_processor).mapped;
  facts.fault_ns = static_cast<std::uint64_t>(costs_.minor_ns);
  facts.page_ns = static_cast<std::uint64_t>(costs_.migrate_to_device.page_ns);
  return facts;
}

Answer Machine::resolve(Touch& touch, std::uint64_t now_ns) {
  const auto minor_ns = static_cast<std::uint64_t>(costs_.minor_ns);
  Block& block = books_.block(touch.block);
  Busy& busy = busy_[touch.block];
  if (busy.until_ns > now_ns) {
    const impl::LockGuard guard(block.lock);
    // Whoever waits for the same pages is woken with him.
    const bool comes = busy.brings(touch) &&
                       open_to(block, touch.faulting_processor, touch.write).test(touch.page);
    if (comes) ++books_.counts().faults;
    return {comes, busy.until_ns};
  }
  if (const std::uint32_t wait_ns = std::exchange(touch.recorded.wait_ns, 0); wait_ns != 0)
    return {false, now_ns + wait_ns};
  books_.begin(now_ns);
  Attempt attempt;
  PageMask opened;
  for (;;) {
    {
      const impl::LockGuard guard(block.lock);
      const PageMask read = open_to(block, touch.faulting_processor, false);
      const PageMask written = open_to(block, touch.faulting_processor, true);
      attempt = this->attempt(touch, block, now_ns);
      opened = (open_to(block, touch.faulting_processor, false) - read) |
               (open_to(block, touch.faulting_processor, true) - written);
    }
    if (attempt.outcome == Attempt::Outcome::again) return {false, attempt.time_ns};
    if (attempt.outcome == Attempt::Outcome::resolved) break;
    if (books_.make_room(attempt.at, attempt.pages)) continue;
    // First without what would come with it.
    touch.stays_put = touch.comes_alone || attempt.pages <= impl::pages_per_region;
    touch.comes_alone = true;
  }
  ++books_.counts().faults;
  const std::uint64_t end_ns = now_ns + books_.cost_ns();
  // Where nothing came it was the thread that the recorded time went by for, not the block.
  busy = {attempt.pages != 0 ? end_ns : std::min(end_ns, now_ns + minor_ns), opened,
          touch.faulting_processor};
  block.minimum_residency.woken(attempt.region, touch.faulting_processor, end_ns);
  books_.begin(end_ns);
  for (int i = 1; i < books_.processors(); ++i) books_.keep_free(Processor{i});
  return {true, end_ns};
}

Machine::Attempt Machine::attempt(Touch& touch, Block& block, std::uint64_t now_ns) {
  using Outcome = Attempt::Outcome;
  const FaultFacts facts = facts_of(touch, block, now_ns);
  impl::Opinion opinion;
  if (impl::AdviceRules::leaves_room(facts)) opinion = policy_.on_fault(facts, block.history);
  if (touch.comes_alone && opinion.region)
    opinion.region = impl::aligned_part(*opinion.region, facts.page, impl::pages_per_region);
  Decision decision = rules_.decide(facts, opinion);
  if (decision.pin_begins && decision.pin_until_ns != 0)
    temporary_pins_.push({decision.pin_until_ns, touch.block, decision.region});
  if (decision.wait_until_ns > now_ns && touch.throttled_ns < impl::throttle_limit_ns) {
    ++books_.counts().throttled;
    const std::uint64_t until = std::clamp(decision.wait_until_ns, now_ns + look_again_ns,
                                           now_ns + impl::throttle_limit_ns);
    touch.throttled_ns += until - now_ns;
    return {.outcome = Outcome::again, .time_ns = until};
  }
  if (touch.stays_put) decision = without_room(facts, decision);

  const Processor at = decision.destination;
  const bool there = block.at(at).resident.test(facts.page);
  const bool has_copies = std::popcount(facts.residents) > 1;
  const double before = static_cast<double>(books_.cost_ns());
  const std::uint64_t mapped = books_.counts().mapped_pages;
  Arrivals arrivals;
  if (!there || (facts.write && has_copies)) {
    const std::uint64_t end =
        block.minimum_residency.end_of(decision.region, facts.faulting_processor, now_ns);
    if (facts.residents != 0 && end > now_ns) {
      touch.comes_alone = true;
      return {.outcome = Outcome::again, .time_ns = end};
    }
    if (!there && !bring(touch, block, facts, decision, arrivals))
      return {.outcome = Outcome::room_needed, .at = at, .pages = arrivals.pages};
    block.minimum_residency.begin(decision.region, facts.faulting_processor, now_ns);
  }
  if (facts.write && (there || has_copies))
    books_.collapse(touch.block, block, decision.region, at);
  show(touch, block, decision);
  follow(touch.block, block, decision.region);
  if (const std::uint64_t pages = books_.counts().mapped_pages - mapped;
      pages != 0 && arrivals.pages == 0)
    arrivals = {static_cast<std::uint16_t>(pages), impl::EventKind::remote_map,
                impl::index_of(facts.faulting_processor)};
  const double cost = static_cast<double>(books_.cost_ns()) - before;
  // What happens as it did takes as long as it did.
  if (is_as_recorded(touch, arrivals))
    books_.add_cost(touch.recorded.ns - cost);
  else if (cost <= 0)
    books_.add_cost(costs_.minor_ns);
  return {.outcome = Outcome::resolved, .pages = arrivals.pages, .region = decision.region};
}

Decision Machine::without_room(const FaultFacts& facts, Decision wanted) const {
  if (facts.residents != 0) {
    wanted.destination = impl::closest_of(facts.residents, facts.faulting_processor);
    return wanted;
  }
  wanted.region = {facts.page, 1};
  for (int i = 0; i < books_.processors(); ++i) {
    wanted.destination = Processor{i};
    if (books_.has_room(wanted.destination, 1)) break;
  }
  return wanted;
}

bool Machine::bring(const Touch& touch, Block& block, const FaultFacts& facts,
                    const Decision& decision, Arrivals& arrivals) {
  using impl::EventKind;
  const Processor to = decision.destination;
  const auto [exists, copy, from, wanted] = impl::plan_transfer(block, facts, decision);
  const std::uint64_t pages = wanted.count();
  arrivals.pages = static_cast<std::uint16_t>(pages);
  arrivals.kind = !exists ? EventKind::populate
                  : copy  ? EventKind::duplicate
                          : EventKind::migration;
  arrivals.destination = impl::index_of(to);
  // Where there is no room at all a live run would end the thread; here it goes on.
  if (!books_.has_room(to, pages) && !touch.stays_put) return false;
  const OperationCost& populates = to.is_host() ? costs_.populate_host : costs_.populate_device;
  const OperationCost& migrates = to.is_host() ? costs_.migrate_to_host : costs_.migrate_to_device;
  const OperationCost& cost = !exists ? populates : copy ? costs_.duplicate : migrates;
  // They are there at the end of it.
  books_.add_cost(is_as_recorded(touch, arrivals) ? touch.recorded.ns : cost.of(pages));
  for (const PageRun run : impl::runs_of(wanted)) {
    if (!exists)
      books_.populate(touch.block, block, run, to);
    else if (copy)
      books_.duplicate(touch.block, block, run, from, to, decision.cause);
    else
      books_.migrate(touch.block, block, run, from, to, decision.cause);
  }
  return true;
}

void Machine::show(const Touch& touch, Block& block, const Decision& decision) {
  const Processor p = touch.faulting_processor;
  const Processor at = decision.destination;
  const PageMask region = PageMask::of(decision.region);
  if (block.view(p, touch.page) != at) books_.show(block, region & block.at(at).resident, p);
  const Processor seen = block.view(p, touch.page);
  books_.note_access(touch.block, seen);
  books_.map(block, (region & block.viewed(p, seen)) - block.at(p).mapped, p);
}

void Machine::follow(std::uint32_t number, Block& block, PageRun run) {
  if (!stretches_.advises()) return;
  const impl::Advice& advice = stretches_.at(number, run.first).advice;
  if (advice.read_mostly) return;
  for (int i = 0; i < books_.processors(); ++i) {
    const Processor p{i};
    const bool fetches = !advice.preferred.is_none() && advice.preferred.processor() == p;
    if ((advice.accessed_by & p.bit()) != 0 && !fetches) books_.show(block, PageMask::of(run), p);
  }
}

void Machine::end_due_pins(std::uint64_t now_ns) {
  while (!temporary_pins_.empty() && temporary_pins_.top().until_ns <= now_ns) {
    const TemporaryPin pin = temporary_pins_.top();
    temporary_pins_.pop();
    Block& block = books_.block(pin.block);
    const impl::LockGuard guard(block.lock);
    PageMask pages = PageMask::of(pin.run);
    if (block.history) pages |= policy_.end_temporary_pins(pin.until_ns, *block.history);
    for (const PageRun run : impl::runs_of(pages)) {
      const impl::ProcessorMask advised = stretches_.at(pin.block, run.first).advice.accessed_by;
      for (int i = 0; i < books_.processors(); ++i)
        if ((advised & Processor{i}.bit()) == 0)
          books_.send_home(block, PageMask::of(run), Processor{i});
    }
  }
}

}  // namespace wherry::replay
