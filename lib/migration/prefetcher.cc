#include "migration/prefetcher.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "os/load.h"
#include "os/thread.h"

namespace wherry::impl {
namespace {

// After so many flights that turned back the pages go one region at a time, which tells what is wrong.
constexpr int failures_max = 3;
constexpr std::uint64_t moment_ns = 100'000;
// How long a step waits for others: flights, changes of views, room that faults have spoken for.
constexpr std::uint64_t step_limit_ns = 1'000'000'000;
// How much of the average of other runnable threads one look makes up, and what one thread counts there.
constexpr unsigned average_weight = 4;
constexpr unsigned one_thread = 256;
constexpr auto idle_check = std::chrono::milliseconds(1);

// Counts while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<unsigned>& counter) : counter_(counter) { ++counter_; }
  ~Counted() { --counter_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<unsigned>& counter_;
};

}  // namespace

Prefetcher::Prefetcher(const Parts& parts, MakeCarrier make_carrier, Limits limits)
    : parts_(parts),
      make_carrier_(std::move(make_carrier)),
      limits_(limits),
      cpus_(std::max(1u, std::thread::hardware_concurrency())) {}

void Prefetcher::start() {
  const SignalBlock no_signals;
  for (unsigned i = 0; i < limits_.copiers; ++i) copiers_.emplace_back([this, i] { work(i); });
}

Prefetcher::~Prefetcher() {
  {
    const std::lock_guard guard(lock_);
    stopping_ = true;
  }
  work_.notify_all();
  surplus_.notify_all();
  for (std::thread& copier : copiers_) copier.join();
}

void Prefetcher::submit(const PrefetchRequest& request, std::function<void()> done) {
  Task task;
  task.kind = request.kind;
  task.epoch = request.epoch;
  task.done = std::move(done);
  for (const PrefetchRange& range : request.ranges)
    if (const auto allocation = parts_.address_space.find(range.pages.offset()))
      task.ranges.push_back({range, allocation->id});
  {
    const std::lock_guard guard(lock_);
    tasks_.push_back(std::move(task));
  }
  // The first copier calls the others: to wake several threads takes longer than the program should wait.
  work_.notify_one();
}

// ---- steps

std::optional<Prefetcher::Step> Prefetcher::next_of(TaskPlace place) {
  Task& task = *place;
  while (task.has_more_steps()) {
    Range range = task.ranges[task.range];
    if (task.kind == PrefetchRequest::Kind::prefetch &&
        (task.full & range.to.processor().bit()) != 0) {
      ++task.range;
      task.block = 0;
      continue;
    }
    const PageSpan all = task.kind == PrefetchRequest::Kind::discard ? range.whole : range.pages;
    const std::uint64_t number = std::max(task.block, block_of(all.first));
    // Where ranges overlap they are done in their order.
    if (std::ranges::find(task.open, number) != task.open.end()) return std::nullopt;
    range.pages = intersect(all, block_span(number));
    range.whole = intersect(range.whole, block_span(number));
    task.block = number + 1;
    if (block_span(number).end() >= all.end()) {
      ++task.range;
      task.block = 0;
    }
    if (range.pages.empty()) continue;
    task.open.push_back(number);
    return Step{place, task.kind, range, number, task.epoch};
  }
  return std::nullopt;
}

std::optional<Prefetcher::Step> Prefetcher::next_step() {
  const std::uint64_t now = now_ns();
  const auto due =
      std::ranges::find_if(put_back_, [now](const Step& s) { return s.due_ns <= now; });
  if (due != put_back_.end()) {
    Step step = std::move(*due);
    put_back_.erase(due);
    return step;
  }
  for (auto task = tasks_.begin(); task != tasks_.end(); ++task) {
    auto step = next_of(task);
    if (!step) continue;
    tasks_.splice(tasks_.end(), tasks_, task);  // the others' turn
    return step;
  }
  return std::nullopt;
}

bool Prefetcher::may_work(unsigned copier) {
  if (copier == 0) return true;
  const unsigned runnable = runnable_threads();
  const unsigned ours = busy_threads_.load(std::memory_order_relaxed) + 1;  // with this one
  const unsigned others = runnable > ours ? runnable - ours : 0;
  // What is counted at one moment may be a thread that is about to sleep.
  const unsigned before = others_average_.load(std::memory_order_relaxed);
  const unsigned average = before - before / average_weight + others * one_thread / average_weight;
  others_average_.store(average, std::memory_order_relaxed);
  return average + copier * one_thread < cpus_ * one_thread - one_thread / 4;
}

std::optional<Prefetcher::Step> Prefetcher::take(unsigned copier, bool wait) {
  const bool may = may_work(copier);
  std::function<void()> done;
  {
    std::unique_lock guard(lock_);
    const auto sleep = [&](std::optional<std::chrono::nanoseconds> limit) {
      if (!wait) return;
      std::condition_variable& changed = copier == 0 ? work_ : surplus_;
      if (limit)
        changed.wait_for(guard, *limit);
      else
        changed.wait(guard);
    };
    if (stopping_) return std::nullopt;
    if (tasks_.empty()) {
      sleep({});
      return std::nullopt;
    }
    if (!may) {
      sleep(idle_check);
      return std::nullopt;
    }
    if (auto step = next_step()) {
      if (copier == 0 && step->task->has_more_steps()) surplus_.notify_all();
      return step;
    }
    // A request without pages has no steps: it is done as soon as somebody looks.
    const auto empty =
        std::ranges::find_if(tasks_, [](const Task& task) { return task.open.empty(); });
    if (empty == tasks_.end()) {
      sleep(put_back_.empty() ? idle_check : std::chrono::nanoseconds(moment_ns));
      return std::nullopt;
    }
    done = std::move(empty->done);
    tasks_.erase(empty);
  }
  done();
  return std::nullopt;
}

void Prefetcher::put_back(Step step) {
  const std::uint64_t now = now_ns();
  step.due_ns = now + moment_ns;
  const std::lock_guard guard(lock_);
  put_back_.push_back(std::move(step));
}

void Prefetcher::finish(const Step& step, bool stuck) {
  std::function<void()> done;
  {
    const std::lock_guard guard(lock_);
    Task& task = *step.task;
    if (stuck) task.full |= step.to().bit();
    task.open.erase(std::ranges::find(task.open, step.number));
    if (!task.open.empty() || task.has_more_steps()) return;
    done = std::move(task.done);
    tasks_.erase(step.task);
  }
  done();
}

// ---- copiers

void Prefetcher::work(unsigned copier) {
  name_this_thread("wherry-copy" + std::to_string(copier));
  if (!limits_.cpus.empty()) pin_this_thread(limits_.cpus);
  std::unique_ptr<Carrier> carrier;         // made for the first flight
  std::vector<std::optional<Leg>> legs(1);  // by slot
  std::optional<Leg> current;
  unsigned flying = 0;
  const auto find_free = [&] {
    return std::ranges::find_if(legs, [](const auto& leg) { return !leg; });
  };
  for (;;) {
    if (!current)
      if (auto step = take(copier, /*wait=*/flying == 0)) current = Leg{std::move(*step), {}, {}};
    if (current && find_free() != legs.end()) {
      const Counted awake(busy_threads_);
      const Progress progress = advance(*current);
      if (progress == Progress::moves) continue;
      if (progress == Progress::flies) {
        if (!carrier) {
          carrier = try_to_make([&] { return make_carrier_(copier); });
          if (!carrier) {
            land(*current, {0, OpStatus::no_memory, false});
            current->step.failures = failures_max;
            continue;
          }
          legs.resize(carrier->slots());
        }
        const auto slot = find_free();
        carrier->begin(static_cast<unsigned>(slot - legs.begin()), current->flight.cargo());
        *slot = std::move(current);
        if (flying++ == 0) ++busy_threads_;
      } else if (progress == Progress::waits) {
        put_back(std::move(current->step));
      } else {
        finish(current->step, progress == Progress::stuck);
      }
      current.reset();
      continue;
    }
    if (flying == 0) {
      const std::lock_guard guard(lock_);
      if (stopping_) return;
      continue;
    }
    const Delivery delivery = carrier->next();
    const Counted awake(busy_threads_);
    auto& leg = legs[delivery.slot];
    land(*leg, delivery);
    // What is left to do of it is best done at once.
    if (!current)
      current = std::move(leg);
    else
      put_back(std::move(leg->step));
    leg.reset();
    if (--flying == 0) --busy_threads_;
  }
}

void Prefetcher::land(Leg& leg, const Delivery& delivery) {
  Block& block = parts_.blocks.at(leg.step.number);
  const LockGuard guard(block.lock);
  if (delivery.status == OpStatus::ok) {
    parts_.engine.land(block, leg.flight, delivery, leg.room);
    note_arrival(leg.step, block, leg.flight.run);
    // Before Linux 6.4 what cannot be mapped protected is given up again: then each region has to come mapped.
    if (!(PageMask::of(leg.flight.run) - block.at(leg.step.to()).resident).none())
      leg.step.failures = failures_max;
  } else {
    parts_.engine.turn_back(block, leg.flight);
    ++leg.step.failures;
  }
  leg.room = Room();
}

// ---- one step

Prefetcher::Progress Prefetcher::advance(Leg& leg) {
  Block& block = parts_.blocks.at(leg.step.number);
  std::uint64_t room_needed = 0;
  Progress progress = Progress::waits;
  {
    const LockGuard guard(block.lock);
    progress = advance_locked(leg, block, room_needed);
  }
  if (room_needed != 0) {
    const RoomRequest request{leg.step.to(), room_needed, leg.step.range.pages.first,
                              leg.step.epoch};
    switch (parts_.evictor.make_room(request, leg.room)) {
      case OpStatus::ok:
        return Progress::moves;
      case OpStatus::incomplete:
        progress = Progress::waits;
        break;
      default:
        // A part may fit.
        leg.step.pages_max = static_cast<unsigned>(room_needed / 2);
        return leg.step.pages_max == 0 ? Progress::stuck : Progress::moves;
    }
  }
  if (progress != Progress::waits) return progress;
  leg.room = Room();
  const std::uint64_t now = now_ns();
  if (leg.step.first_ns == 0) leg.step.first_ns = now;
  return now - leg.step.first_ns < step_limit_ns ? Progress::waits : Progress::done;
}

Prefetcher::Progress Prefetcher::advance_locked(Leg& leg, Block& block,
                                                std::uint64_t& room_needed) {
  Step& step = leg.step;
  const auto allocation = parts_.address_space.find(step.range.pages.offset());
  if (!allocation || allocation->id != step.range.allocation) return Progress::done;
  if (step.kind != PrefetchRequest::Kind::prefetch && !step.discarded) return discard(step, block);

  const Need need = next_need(step, block);
  if (need.progress == Progress::done) return settle(step, block);
  if (need.progress == Progress::waits) return Progress::waits;
  const Processor to = step.to();
  if (!leg.room.try_grow(parts_.engine.at(to).capacity, need.run.count)) {
    room_needed = need.run.count;
    return Progress::waits;
  }
  // Before anything arrives that it concerns.
  parts_.evictor.note_round(to, step.epoch);
  if (need.run.count < limits_.flight_pages_min || step.failures >= failures_max)
    return carry_now(leg, block, need);
  leg.flight = {step.number, need.run, need.kind, need.from, to, MoveCause::prefetch};
  return parts_.engine.begin_flight(block, leg.flight) == OpStatus::ok ? Progress::flies
                                                                       : Progress::waits;
}

Prefetcher::Need Prefetcher::next_need(const Step& step, const Block& block) const {
  const PageMask wanted = PageMask::of(step.run()) - step.had_turn;
  const PageMask stays = parts_.effects.pinned(step.number) - block.absent();
  const PageMask missing = wanted - block.at(step.to()).resident - stays;
  const PageMask free = missing - block.in_flight();
  const PageRun first = free.next_run(0);
  if (first.count == 0) return {missing.none() ? Progress::done : Progress::waits, {}, {}, {}};

  Need need{Progress::moves, {}, Cargo::Kind::create, Processor::host()};
  const ProcessorMask residents = block.residents(first.first);
  PageMask alike = free;
  if (residents == 0) {
    alike &= block.absent();
  } else {
    const AdviceMap::Segment advice = parts_.effects.advice_at(span_of(step.number, first).first);
    alike &= PageMask::of(run_in_block(step.number, advice.span));
    need.from = Processor{std::countr_zero(residents)};
    alike &= block.at(need.from).resident;
    // A page that has copies gets one more.
    need.kind = advice.advice.read_mostly || std::popcount(residents) > 1 ? Cargo::Kind::copy
                                                                          : Cargo::Kind::move;
    if (need.kind == Cargo::Kind::move) alike -= block.held_beside(need.from);
  }
  need.run = alike.run_around(first.first);
  need.run.count = std::min(need.run.count, step.pages_max);
  return need;
}

// Pages that do not make a flight: a region at a time, so that nobody waits for the lock for long.
Prefetcher::Progress Prefetcher::carry_now(Leg& leg, Block& block, const Need& need) {
  const PageRun run{need.run.first,
                    std::min(need.run.count, static_cast<unsigned>(pages_per_region))};
  const std::uint64_t number = leg.step.number;
  const Processor to = leg.step.to();
  Room& room = leg.room;
  const auto carry = [&](Entry entry) REQUIRES(block.lock) {
    switch (need.kind) {
      case Cargo::Kind::create:
        return parts_.engine.populate(block, number, run, to, room, entry);
      case Cargo::Kind::copy:
        return parts_.engine.duplicate(block, number, run, need.from, to, room, entry);
      case Cargo::Kind::move:
        break;
    }
    return parts_.engine.migrate(block, number, run, need.from, to, room, MoveCause::prefetch,
                                 entry);
  };
  OpResult result = carry(Entry::at_home);
  // Without a process there is a pool all the same.
  if (result.status == OpStatus::process_gone) result = carry(Entry::none);
  count(parts_.engine.at(to).counters.prefetched, result.bytes / page_size);
  if (result.bytes != 0)
    note_arrival(leg.step, block, {run.first, static_cast<unsigned>(result.bytes / page_size)});
  switch (result.status) {
    case OpStatus::ok:
      return Progress::moves;
    case OpStatus::no_memory:
      return Progress::stuck;
    default:
      return result.bytes != 0 ? Progress::moves : Progress::waits;
  }
}

Prefetcher::Progress Prefetcher::discard(Step& step, Block& block) {
  PageMask pages = PageMask::of(run_in_block(step.number, step.range.whole));
  if (!(pages & block.in_flight()).none()) return Progress::waits;
  pages -= parts_.effects.pinned(step.number);
  // What is at the destination already may be used as it is.
  const bool stays = step.kind == PrefetchRequest::Kind::discard_and_prefetch;
  if (stays) pages -= block.at(step.to()).resident - block.held_beside(step.to());
  for (const PageRun run : runs_of(pages - block.absent()))
    parts_.engine.release(block, step.number, run);
  step.discarded = true;
  return stays ? Progress::moves : Progress::done;
}

void Prefetcher::note_arrival(Step& step, Block& block, PageRun run) {
  step.had_turn |= PageMask::of(run) & block.at(step.to()).resident;
  // Stays until it is used, as far as others that the same stream prefetches are concerned.
  if (!step.to().is_host()) block.prefetched_in = step.epoch;
}

Prefetcher::Progress Prefetcher::settle(const Step& step, Block& block) {
  const PageMask pages = PageMask::of(step.run());
  if (parts_.effects.show(block, step.number, pages, step.to()) == AdviceEffects::Progress::pending)
    return Progress::waits;
  if (!parts_.effects.follow(block, step.number, step.run())) return Progress::waits;
  // Whoever prefetches to one of several nodes of the host means that one.
  if (limits_.host_has_nodes && step.range.to.kind == Location::Kind::host_node) {
    ProcessorMemory& memory = parts_.engine.at(Processor::host());
    const PageMask there = (pages & block.at(Processor::host()).resident) - block.in_flight() -
                           parts_.effects.pinned(step.number);
    for (const PageRun run : runs_of(there))
      memory.file.move_to_node(span_of(step.number, run), step.range.to.id);
  }
  return Progress::done;
}

}  // namespace wherry::impl
