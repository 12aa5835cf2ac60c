#include "faults/fault_service.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/clock.h"
#include "base/log.h"
#include "migration/background_evictor.h"
#include "migration/creation.h"
#include "policy/transfer_plan.h"
#include "trace/recorder.h"

namespace wherry::impl {
namespace {

// A fault that another thread's changes make look again so often looks again a little later.
constexpr int attempts_max = 8;
constexpr std::uint64_t moment_ns = 20'000;
// The limit only bounds what a broken invariant, or memory that never comes, could cost; then the
// thread gets a signal rather than a hang.
constexpr std::uint64_t life_limit_ns = 10'000'000'000;
// Without memory for it a fault is given up after as many looks, over as long at least.
constexpr int memory_attempts_max = 20;
constexpr std::uint64_t memory_limit_ns = 1'000'000'000;
constexpr std::uint64_t memory_pause_ns = 5'000'000;
// A fault that has waited for long looks less often: its looks take a CPU from the thread that it
// waits for.
constexpr std::uint64_t pause_max_ns = 1'000'000;
constexpr unsigned pause_share = 16;
// How long a fault waits for room while no page comes free. Then its page stays where it is, or
// comes to be where there is room.
constexpr std::uint64_t line_limit_ns = 2'000'000'000;
// How long a fault waits for its processor to see another pool.
constexpr std::uint64_t view_limit_ns = 3'000'000'000;
// How long a fault waits for others to have what it brought mapped as they are advised to.
constexpr std::uint64_t follow_limit_ns = 1'000'000'000;

constexpr const char* no_room_anywhere =
    "all pools are full (free memory, or raise WHERRY_HOST_CAPACITY or a device's capacity)";

// When a fault looks again that waits for something that takes its time.
std::uint64_t later(const Fault& fault) {
  const std::uint64_t now = now_ns();
  return now + std::clamp((now - fault.taken_ns) / pause_share, moment_ns, pause_max_ns);
}

void count_event(Counters& counters, const FaultEvent& event) {
  if (event.write_protect) {
    count(counters.faults_write_protect);
  } else if (event.minor) {
    count(counters.faults_minor);
  } else {
    count(counters.faults_missing);
  }
}

}  // namespace

Fault FaultService::take(Processor faulting_processor, const FaultEvent& event) {
  // What is no page is nobody's memory, as the last page never is.
  const std::uint64_t nowhere = layout_.bytes() / page_size - 1;
  Fault fault{faulting_processor, event, layout_.page_of(event.address).value_or(nowhere),
              now_ns()};
  if (event.kind_known) count_once(fault);
  return fault;
}

void FaultService::count_once(Fault& fault) const {
  if (!std::exchange(fault.counted, true))
    count_event(engine_.at(fault.faulting_processor).counters, fault.event);
}

void FaultService::classify(Fault& fault, const Block& block) const {
  FaultEvent& event = fault.event;
  if (event.kind_known) return;
  const auto page = static_cast<unsigned>(fault.page % pages_per_block);
  const bool mapped = block.at(fault.faulting_processor).mapped.test(page);
  event.write_protect = mapped && event.write;
  event.minor = !event.write_protect &&
                block.at(block.view(fault.faulting_processor, page)).resident.test(page);
  event.kind_known = true;
}

bool FaultService::resolve_in_handler(const FaultEvent& event) {
  Fault fault = take(Processor::host(), event);
  fault.in_handler = true;
  for (int i = 0; i < attempts_max; ++i) {
    const Attempt attempt = this->attempt(fault);
    if (attempt.outcome == Outcome::try_again) continue;
    if (attempt.outcome != Outcome::resolved) return false;
    finish(fault, attempt.wake);
    return true;
  }
  return false;
}

std::optional<std::uint64_t> FaultService::resolve(Fault& fault) {
  if (fault.was_put_off) note_wait(fault);
  fault.is_under_way = false;
  for (int i = 0; i < attempts_max; ++i) {
    const Attempt attempt = this->attempt(fault);
    switch (attempt.outcome) {
      case Outcome::resolved:
        finish(fault, attempt.wake);
        return std::nullopt;
      case Outcome::try_again:
        continue;
      case Outcome::not_yet:
        fault.is_under_way = attempt.is_under_way;
        return put_off(fault, attempt.due, "the page never came free");
      case Outcome::unallocated:
        if (answer_unallocated(fault)) return std::nullopt;
        continue;
      case Outcome::foreign:
        answer_foreign(fault);
        return std::nullopt;
      case Outcome::full:
        if (!std::exchange(fault.left_line, false))
          return put_off_for_memory(fault, no_room_anywhere);
        // Nor is there room elsewhere: back to the line.
        fault.stays_put = false;
        return put_off_in_line(fault, fault.faulting_processor);
      case Outcome::not_here:
        break;  // only in a handler
      case Outcome::lost:
        refuse(fault,
               "its pool lost the page (failed memory, or the file was changed from outside)");
        return std::nullopt;
      case Outcome::room_needed:
      case Outcome::no_memory:
        switch (relieve(fault, attempt)) {
          case OpStatus::ok:
            continue;
          case OpStatus::absent:
            if (fault.stays_put) return put_off(fault, now_ns() + moment_ns, no_room_anywhere);
            // First without what would come with it.
            fault.stays_put = fault.comes_alone || !attempt.is_many;
            fault.comes_alone = true;
            continue;
          case OpStatus::no_memory:
            // The kernel may be reclaiming: a moment later there may be some.
            return put_off_for_memory(fault, "no memory is left for the page");
          default:
            fault.comes_alone = true;
            if (fault.waited.ns() < line_limit_ns)
              return put_off_in_line(fault, attempt.destination);
            fault.stays_put = fault.left_line = true;
            continue;
        }
    }
  }
  return put_off(fault, now_ns() + moment_ns, "others changed the page all the time");
}

FaultFacts FaultService::facts_of(const Fault& fault, const Allocation& allocation,
                                  Block& block) const {
  const std::uint64_t number = block_of(fault.page);
  const AdviceMap::Segment segment = effects_.advice_at(fault.page);
  FaultFacts facts;
  facts.faulting_processor = fault.faulting_processor;
  facts.page = static_cast<unsigned>(fault.page % pages_per_block);
  facts.write = fault.event.write;
  facts.now_ns = now_ns();
  facts.block = number;
  facts.processors = engine_.processors();
  facts.held = block.at(fault.faulting_processor).resident;
  facts.mapped = block.at(fault.faulting_processor).mapped;
  facts.fault_ns = costs_.fault_ns.get();
  facts.page_ns = costs_.page_ns.get();
  facts.free_pages = free_pages(fault.faulting_processor, fault.reservation);
  facts.residents = block.residents(facts.page);
  facts.read_mostly = segment.advice.read_mostly;
  if (!segment.advice.preferred.is_none()) facts.preferred = segment.advice.preferred.processor();
  // What has not been handed out of a device's own memory comes to be nowhere else either.
  if (allocation.owner.device) facts.preferred = *allocation.owner.device;
  facts.accessed_by = segment.advice.accessed_by;
  facts.pinned = segment.advice.pinned;
  facts.stretch = run_in_block(number, intersect(allocation.pages(), segment.span));
  facts.evicted = !fault.comes_alone &&
                  (block.evicted_from & fault.faulting_processor.bit()) != 0 &&
                  Replacement::returns_as_one(
                      facts.stretch, engine_.at(fault.faulting_processor).capacity.pages());
  if (!fault.comes_alone) facts.grain = grain_for(fault.faulting_processor, facts.residents);
  if (facts.grain > 1) facts.present = (PageMask::of(facts.stretch) - block.absent()).count();
  return facts;
}

std::uint64_t FaultService::free_pages(Processor p, const Reservation& reservation) const {
  const Capacity& capacity = engine_.at(p).capacity;
  // The host's pool is where pages are evicted to.
  const std::uint64_t kept = p.is_host() ? 0 : Watermarks::of(capacity.pages()).low;
  const std::uint64_t taken = capacity.reserved() - reservation.pages_of(capacity) + kept;
  return capacity.pages() - std::min(taken, capacity.pages());
}

unsigned FaultService::grain_for(Processor faulting_processor, ProcessorMask residents) const {
  unsigned grain = 1;
  for (int i = 0; i < engine_.processors(); ++i)
    if (((residents | faulting_processor.bit()) & Processor{i}.bit()) != 0)
      grain = std::max(grain, engine_.at(Processor{i}).mapper.grain());
  return grain;
}

// Memory for the books may be missing, as that for pages may. No exception leaves a signal handler,
// or a handler's thread.
FaultService::Attempt FaultService::attempt(Fault& fault) {
  try {
    Block& block = blocks_.at(block_of(fault.page));
    if (!fault.in_handler) {
      const LockGuard guard(block.lock);
      return attempt_locked(fault, block);
    }
    // What advice asks for, and what is evicted, may need more than a handler may do.
    if (effects_.advises() || !block.lock.try_lock()) return {Outcome::not_here};
    const AdoptGuard guard(block.lock);
    return attempt_locked(fault, block);
  } catch (const std::bad_alloc&) {
    if (fault.in_handler) return {Outcome::not_here};
    return {Outcome::not_yet, {}, now_ns() + memory_pause_ns};
  }
}

FaultService::Attempt FaultService::attempt_locked(Fault& fault, Block& block) {
  const std::uint64_t number = block_of(fault.page);
  classify(fault, block);
  // To see another pool is not a thing to be done in passing.
  if (fault.in_handler && !block.is_home(fault.faulting_processor,
                                         {static_cast<unsigned>(fault.page % pages_per_block), 1}))
    return {Outcome::not_here};
  const auto allocation = address_space_.find(fault.page * page_size);
  if (!allocation) return {Outcome::unallocated};
  if (!audiences_.admits(allocation->owner.audience(), fault.faulting_processor))
    return {Outcome::foreign};

  const FaultFacts facts = facts_of(fault, *allocation, block);
  if (block.switching(facts.faulting_processor).test(facts.page))
    return {Outcome::not_yet, {}, now_ns() + moment_ns};
  if (block.in_flight().test(facts.page)) {
    // That may take long: others may need the room more.
    fault.reservation.release();
    Attempt wait{Outcome::not_yet, {}, later(fault)};
    wait.is_under_way = engine_.transfers().is_carried({fault.page, 1}, fault.event.thread);
    return wait;
  }
  // To remember something takes memory.
  if (fault.in_handler && policy_.remembers()) return {Outcome::not_here};
  Opinion opinion;
  if (AdviceRules::leaves_room(facts)) opinion = policy_.on_fault(facts, block.history);
  if (fault.comes_alone && opinion.region)
    opinion.region = aligned_part(*opinion.region, facts.page, pages_per_region);
  Decision decision = rules_.decide(facts, opinion);
  // Something may have been advised since this was looked at.
  if (fault.in_handler && (effects_.advises() || decision.destination != fault.faulting_processor))
    return {Outcome::not_here};
  end_throttle(fault, facts.now_ns);
  if (decision.cause == MoveCause::thrash_pin && (decision.pin_begins || fault.owes_pin)) {
    fault.owes_pin = !temporary_pins_.begin(number, decision.region, decision.destination,
                                            decision.pin_until_ns);
    if (fault.owes_pin) return {Outcome::not_yet, {}, facts.now_ns + memory_pause_ns};
  }
  if (decision.wait_until_ns > facts.now_ns && fault.throttled_ns < throttle_limit_ns) {
    count(engine_.at(fault.faulting_processor).counters.throttled);
    fault.throttled_since_ns = facts.now_ns;
    record_throttle(fault, EventKind::throttle_begin, facts.now_ns, facts.now_ns);
    fault.reservation.release();
    return {
        Outcome::not_yet, {}, std::min(decision.wait_until_ns, facts.now_ns + throttle_limit_ns)};
  }
  decision.region = (PageMask::of(decision.region) - block.in_flight()).run_around(facts.page);
  if (fault.stays_put) {
    const auto placed = without_room(block, facts, allocation->owner, decision, fault.reservation);
    if (!placed) return {Outcome::full};
    decision = *placed;
  }
  if (fault.keeps_view && !facts.pinned) {
    decision.destination = block.view(facts.faulting_processor, facts.page);
    decision.reason = Reason::no_mappings;
    decision.fills = false;
  }

  const Fault::Origin origin = fault.origin.value_or(origin_of(block, facts, decision));
  const Processor at = decision.destination;
  const bool there = block.at(at).resident.test(facts.page);
  const bool has_copies = std::popcount(facts.residents) > 1;
  // Bringing a page and ending its copies both take something from somebody.
  if (!there || (facts.write && has_copies)) {
    const std::uint64_t now = now_ns();
    const std::uint64_t end =
        block.minimum_residency.end_of(decision.region, facts.faulting_processor, now);
    // Who has not been woken yet will be soon, and the tenure is shorter then.
    if (facts.residents != 0 && end > now) {
      // Its own region may be free: all of the block seldom is, where others use it.
      fault.comes_alone = true;
      return {Outcome::not_yet, {}, std::min(end, now + moment_ns)};
    }
    if (!there)
      if (const auto hindered = bring(fault, block, number, facts, decision)) return *hindered;
    fault.origin = origin;
    block.minimum_residency.begin(decision.region, facts.faulting_processor, now);
  }
  // What has just come is writable, unless it has copies.
  if (facts.write && (there || has_copies)) engine_.collapse(block, decision.region, at);
  if (facts.write && facts.read_mostly && at.is_host())
    effects_.settle_on_host(block, decision.region);
  const bool filled = decision.fills && fill(block, decision, fault.reservation);
  if (there || filled || !block.at(facts.faulting_processor).mapped.test(facts.page)) {
    if (const auto hindered = show(fault, block, number, facts.page, decision)) return *hindered;
  }
  if (!effects_.follow(block, decision.region) && fault.waited.ns() < follow_limit_ns)
    return {Outcome::not_yet, {}, now_ns() + moment_ns};
  note_decision(fault, facts, decision, origin);
  return {Outcome::resolved, span_of(number, decision.region)};
}

Fault::Origin FaultService::origin_of(const Block& block, const FaultFacts& facts,
                                      const Decision& decision) {
  std::int8_t source = DecisionRecord::nobody;
  PageMask pages = PageMask::of(decision.region);
  if (facts.residents == 0) {
    pages &= block.absent();
  } else {
    const Processor from = closest_of(facts.residents, decision.destination);
    source = index_of(from);
    pages &= block.at(from).resident;
    if (from == decision.destination) pages -= facts.mapped;
  }
  return {source, (pages | PageMask::of({facts.page, 1})).run_around(facts.page), decision.reason};
}

void FaultService::note_decision(const Fault& fault, const FaultFacts& facts,
                                 const Decision& decision, const Fault::Origin& origin) {
  // Its own entry was missing alone: that says nothing about where the page is.
  if (origin.reason == Reason::there) return;
  engine_.decisions().add({.time_ns = facts.now_ns,
                           .block = facts.block,
                           .run = origin.run,
                           .waited_ns = facts.now_ns - fault.taken_ns,
                           .faulting_processor = index_of(facts.faulting_processor),
                           .source = origin.source,
                           .destination = index_of(decision.destination),
                           .reason = origin.reason,
                           .cause = decision.cause,
                           .access = facts.write ? EventAccess::write : EventAccess::read});
}

std::optional<Decision> FaultService::without_room(Block& block, const FaultFacts& facts,
                                                   const Ownership& owner, Decision wanted,
                                                   Reservation& reservation) const {
  if (facts.residents != 0) {
    wanted.destination = block.at(facts.faulting_processor).resident.test(facts.page)
                             ? facts.faulting_processor
                             : Processor{std::countr_zero(facts.residents)};
    wanted.reason = Reason::no_room;
    wanted.fills = false;
    return wanted;
  }
  // A device's own memory is in its pool, or nowhere.
  if (!owner.is_managed()) return std::nullopt;
  for (const PageRun region : {wanted.region, PageRun{facts.page, 1}})
    if (const auto there = find_room(engine_, region.count, reservation))
      return Decision{*there, region, Reason::no_room};
  return std::nullopt;
}

std::optional<FaultService::Attempt> FaultService::bring(Fault& fault, const LockedBlock& block,
                                                         const FaultFacts& facts,
                                                         const Decision& decision) {
  const Processor to = decision.destination;
  Reservation& reservation = fault.reservation;
  const auto [exists, copy, from, wanted] = plan_transfer(block, facts, decision);
  if (!reservation.try_grow(engine_.at(to).capacity, wanted.count())) {
    // Nobody has to go for the sake of mappings.
    if (facts.grain > 1 && !facts.evicted) return come_alone(fault);
    return Attempt{Outcome::room_needed,
                   {},
                   0,
                   to,
                   wanted.count(),
                   facts.evicted || wanted.count() > pages_per_region};
  }

  const Motive motive(decision.cause,
                      decision.speculates ? std::optional(facts.page) : std::nullopt);
  bool page_done = false;
  for (const PageRun run : runs_of(wanted)) {
    const std::uint64_t begun_ns = now_ns();
    const OpResult result =
        !exists ? engine_.populate(block, run, to, reservation, fault.entry, motive)
        : copy  ? engine_.duplicate(block, run, from, to, reservation, fault.entry, motive)
                : engine_.migrate(block, run, from, to, reservation, motive, fault.entry);
    note_cost(fault, result.bytes / page_size, now_ns() - begun_ns);
    const bool reached =
        facts.page >= run.first && facts.page < run.first + result.bytes / page_size;
    page_done = page_done || reached;
    if (result.status == OpStatus::process_gone) {
      // Its own process: nobody is left who wants the page.
      if (to == facts.faulting_processor) return Attempt{Outcome::resolved};
      fault.entry = Entry::none;
      return Attempt{Outcome::try_again};
    }
    if (result.status == OpStatus::no_memory && !page_done)
      return facts.grain > 1 ? come_alone(fault) : Attempt{Outcome::no_memory, {}, 0, to};
  }
  // The kernel says to come again: its reason may be a message that this very thread has to read.
  if (!page_done) return Attempt{Outcome::not_yet, {}, now_ns() + moment_ns};
  return std::nullopt;
}

void FaultService::note_cost(Fault& fault, std::uint64_t pages, std::uint64_t ns) {
  fault.carrying_ns += ns;
  // Alone, a page costs what the call does.
  if (pages >= pages_per_region) costs_.page_ns.add(ns / pages);
}

bool FaultService::fill(const LockedBlock& block, const Decision& decision,
                        Reservation& reservation) {
  const Processor p = decision.destination;
  const PageMask holes =
      (PageMask::of(decision.region) & block.absent()) - block.foreign(p) - block.switching(p);
  if (holes.none() || !reservation.try_grow(engine_.at(p).capacity, holes.count())) return false;
  bool filled = false;
  for (const PageRun run : runs_of(holes))
    filled = engine_.populate(block, run, p, reservation, Entry::none).bytes != 0 || filled;
  return filled;
}

std::optional<FaultService::Attempt> FaultService::show(Fault& fault, const LockedBlock& block, unsigned page,
                                                        const Decision& decision) {
  const Processor p = fault.faulting_processor;
  const Processor at = decision.destination;
  const PageMask region = PageMask::of(decision.region);
  if (block.view(p, page) != at) {
    switch (effects_.show(block, region & block.at(at).resident, p)) {
      case AdviceEffects::Progress::done:
        break;  // it sees another copy
      case AdviceEffects::Progress::pending:
        if (fault.waited.ns() < view_limit_ns)
          return Attempt{Outcome::not_yet, {}, now_ns() + moment_ns};
        [[fallthrough]];  // others' changes of views, or a device that hangs, must not cost the
                          // thread
      case AdviceEffects::Progress::declined:
        // A pinned page does not come; others may give mappings back.
        if (effects_.pinned(number).test(page))
          return Attempt{Outcome::not_yet, {}, now_ns() + moment_ns};
        fault.keeps_view = true;
        return Attempt{Outcome::try_again};
    }
  }
  // The page is entered whatever the books say: Linux may have taken the entry away. Entering what
  // is entered already changes nothing.
  const Processor seen = block.view(p, page);
  // With one page of a huge entry it has taken all.
  const bool took_whole = fault.event.minor && (block.entered_whole & p.bit()) != 0 &&
                          block.at(p).mapped.test(page) &&
                          engine_.was_taken(block, page, p);
  if (took_whole) block.entered_whole &= ~p.bit();
  // Access to the region may have been taken away with that to others.
  const PageMask known = engine_.at(p).mapper.grain() > 1 ? PageMask{} : block.at(p).mapped;
  const PageMask wanted = took_whole ? ~block.in_flight() : region - known;
  const PageMask missing =
      (wanted & block.viewed(p, seen) & block.at(seen).resident) - block.switching(p);
  const PageMask enter = missing.test(page) ? missing : PageMask::of({page, 1});
  engine_.note_access(block, seen);
  for (const PageRun run : runs_of(enter)) {
    const OpResult result = engine_.map(block, run, p);
    if (result.status == OpStatus::process_gone) return Attempt{Outcome::resolved};
    if (result.status == OpStatus::absent) return Attempt{Outcome::lost};
    if (!result) return Attempt{Outcome::not_yet, {}, now_ns() + moment_ns};
  }
  // Nobody has another copy, and the kernel says that this entry is protected.
  if (fault.event.write_protect && std::popcount(block.residents(page)) == 1)
    (void)engine_.at(p).mapper.write_unprotect(span_of(number, {page, 1}));
  return std::nullopt;
}

void FaultService::finish(Fault& fault, PageSpan wake) {
  count_once(fault);
  ProcessorMemory& memory = engine_.at(fault.faulting_processor);
  // Everything that the woken thread may ask about is in place before the wake.
  const std::uint64_t now = now_ns();
  const std::uint64_t service_ns = now - fault.taken_ns;
  count(memory.counters.service_ns, service_ns);
  costs_.fault_ns.add(service_ns - std::min(service_ns, fault.throttled_ns + fault.carrying_ns));
  record_answer(fault, wake, now);
  if (wake.empty()) return;
  (void)memory.mapper.wake(wake);
  const std::uint64_t number = block_of(wake.first);
  blocks_.at(number).minimum_residency.woken(run_in_block(number, wake), fault.faulting_processor,
                                             now_ns());
}

OpStatus FaultService::relieve(Fault& fault, const Attempt& attempt) {
  const Processor p = attempt.destination;
  if (attempt.outcome == Outcome::room_needed) {
    const OpStatus status =
        evictor_.make_room({p, attempt.room_needed, fault.page}, fault.reservation);
    // Nothing leaves the host, and what would have to leave a device finds no room there.
    return status == OpStatus::no_memory ? OpStatus::absent : status;
  }
  // On a device's node its own pages may be in the way; the host's can only wait for what the
  // kernel reclaims.
  if (!p.is_host() && evictor_.evict_one({p, 0, fault.page}) == OpStatus::ok) return OpStatus::ok;
  return OpStatus::no_memory;
}

std::optional<std::uint64_t> FaultService::put_off(Fault& fault, std::uint64_t due,
                                                   const char* why) {
  note_wait(fault);
  fault.was_put_off = true;
  if (fault.waited.ns() < life_limit_ns || !wait_limits_applied()) return due;
  refuse(fault, why);
  return std::nullopt;
}

std::optional<std::uint64_t> FaultService::put_off_in_line(Fault& fault, Processor p) {
  // While pages come free, and older requests get them, this one's turn comes.
  const std::uint64_t progress = engine_.at(p).capacity.progress();
  fault.is_under_way = std::exchange(fault.line_progress, progress) != progress;
  return put_off(fault, later(fault), "no room is left for the page");
}

std::optional<std::uint64_t> FaultService::put_off_for_memory(Fault& fault, const char* why) {
  // The kernel may be reclaiming: a moment later there may be some.
  ++fault.memory_failures;
  if (fault.memory_failures < memory_attempts_max || fault.waited.ns() < memory_limit_ns)
    return put_off(fault, now_ns() + memory_pause_ns, why);
  refuse(fault, why);
  return std::nullopt;
}

void FaultService::note_wait(Fault& fault) {
  if (!fault.is_under_way && fault.throttled_since_ns == 0)
    fault.waited.note_wait();
  else
    fault.waited.skip_wait();
}

bool FaultService::answer_unallocated(Fault& fault) {
  if (!came_back(fault)) {
    let_try_again(fault);
    return true;
  }
  if (!address_space_.retire_if_dead(fault.page)) return false;
  refuse(fault, "no live allocation is there (freed, or never allocated)");
  return true;
}

void FaultService::answer_foreign(Fault& fault) {
  if (came_back(fault)) {
    refuse(fault, "it is another device's memory (cuMemAlloc, or a pool), which it may not access");
  } else {
    let_try_again(fault);
  }
}

void FaultService::let_try_again(Fault& fault) {
  const std::uint64_t now = now_ns();
  end_throttle(fault, now);
  record_answer(fault, {}, now);
  (void)engine_.at(fault.faulting_processor).mapper.wake({fault.page, 1});
}

void FaultService::record_answer(const Fault& fault, PageSpan pages, std::uint64_t now) const {
  if (!is_recorded(EventKind::fault)) return;
  const FaultEvent& event = fault.event;
  const auto kind = event.write_protect ? FaultDetail::write_protect
                    : event.minor       ? FaultDetail::minor
                                        : FaultDetail::missing;
  record_event(
      {.time_ns = fault.taken_ns,
       .duration_ns = now - fault.taken_ns,
       .address = event.address,
       .bytes = pages.bytes(),
       .thread = event.thread,
       .kind = EventKind::fault,
       .access = event.write ? EventAccess::write : EventAccess::read,
       .detail = static_cast<std::uint8_t>(code_of(kind) | (fault.refused ? fault_refused : 0)),
       .destination = index_of(fault.faulting_processor)});
}

void FaultService::end_throttle(Fault& fault, std::uint64_t now) const {
  const std::uint64_t since = std::exchange(fault.throttled_since_ns, 0);
  if (since == 0) return;
  fault.throttled_ns += now - since;
  record_throttle(fault, EventKind::throttle_end, since, now);
}

void FaultService::record_throttle(const Fault& fault, EventKind kind, std::uint64_t begun_ns,
                                   std::uint64_t now) const {
  if (!is_recorded(kind)) return;
  record_event({.time_ns = begun_ns,
                .duration_ns = now - begun_ns,
                .address = fault.event.address & ~(page_size - 1),
                .bytes = page_size,
                .thread = fault.event.thread,
                .kind = kind,
                .destination = index_of(fault.faulting_processor)});
}

bool FaultService::came_back(const Fault& fault) {
  const std::uint64_t changes = audiences_.changes();
  const LockGuard guard(suspects_lock_);
  for (Suspect& suspect : suspects_) {
    if (suspect.faulting_processor != fault.faulting_processor || suspect.page != fault.page ||
        suspect.thread != fault.event.thread)
      continue;
    if (suspect.audience_changes == changes) return fault.taken_ns >= suspect.answered_ns;
    suspect.audience_changes = changes;
    suspect.answered_ns = now_ns();
    return false;
  }
  suspects_[next_suspect_] = {fault.faulting_processor, fault.page, fault.event.thread, now_ns(),
                              changes};
  next_suspect_ = (next_suspect_ + 1) % suspects_.size();
  return false;
}

void FaultService::refuse(Fault& fault, const char* why) {
  fault.refused = true;
  count_once(fault);
  const Processor faulting_processor = fault.faulting_processor;
  ProcessorMemory& memory = engine_.at(faulting_processor);
  const PageSpan span{fault.page, 1};
  address_space_.retire(fault.page);
  const std::uint64_t now = now_ns();
  end_throttle(fault, now);
  record_answer(fault, span, now);
  (void)memory.mapper.forbid(span);
  // Before the wake: the signal that follows it may end the process. A log line never waits.
  const char* const verb = fault.event.write ? "wrote to" : "read";
  if (faulting_processor.is_host())
    log_line("host thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV", fault.event.thread, verb,
             fault.event.address, why);
  else
    log_line("device {} thread {} {} {:#x}: {}; it gets SIGBUS or SIGSEGV",
             faulting_processor.ordinal(), fault.event.thread, verb, fault.event.address, why);
  (void)memory.mapper.wake(span);
}

}  // namespace wherry::impl
