#include "migration/view_switcher.h"

#include <bit>
#include <new>
#include <string>

#include "base/clock.h"
#include "base/patience.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// A change can split one mapping in three.
constexpr std::uint64_t mappings_per_change = 2;
// How long changes of a processor's views are declined after one has failed, or after the processor
// had too many mappings: Linux takes a while to count them.
constexpr std::uint64_t decline_ns = 100'000'000;

}  // namespace

ViewSwitcher::ViewSwitcher(PageEngine& engine, BlockDirectory& blocks,
                           std::span<ViewChanger* const> changers, std::uint64_t mappings_budget)
    : engine_(engine), blocks_(blocks), budget_(mappings_budget) {
  for (std::size_t i = 0; i < changers.size(); ++i) {
    changers_[i] = changers[i];
    // Makes may_see_others() count the processor's mappings before the first change.
    accounts_[i].since = budget_;
  }
}

void ViewSwitcher::start() {
  const SignalBlock no_signals;
  for (int p = 0; p < engine_.processors(); ++p) {
    Queue& queue = this->queue(Processor{p});
    queue.thread = std::thread([this, &queue, p] { work(queue, p); });
  }
}

ViewSwitcher::~ViewSwitcher() {
  for (Queue& queue : queues_) {
    {
      const LockGuard guard(queue.lock);
      queue.stopping = true;
    }
    queue.changed.notify_all();
  }
  for (Queue& queue : queues_)
    if (queue.thread.joinable()) queue.thread.join();
}

bool ViewSwitcher::request(Processor p, BlockIndex block, const PageMask& pages, Wish wish) {
  const Account& account = accounts_[static_cast<unsigned>(p.index)];
  const std::uint64_t now = now_ns();
  if (now < account.fails_until.load()) return false;
  if (wish == Wish::see && now < account.declines_until.load()) return false;
  Queue& queue = this->queue(p);
  {
    const LockGuard guard(queue.lock);
    try {
      const auto [request, is_new] =
          queue.requested.try_emplace({block, p.index, wish}, PageMask{});
      if (is_new) {
        try {
          queue.order.push_back(request->first);
        } catch (const std::bad_alloc&) {
          queue.requested.erase(request);
          throw;
        }
        ++queue.issued;
      }
      request->second |= pages;
    } catch (const std::bad_alloc&) {
      return false;  // the caller does without the change
    }
  }
  queue.changed.notify_all();
  return true;
}

void ViewSwitcher::carry_out(Processor p, BlockIndex block, const PageMask& pages, Wish wish) {
  const LockGuard one_at_a_time(queue(p).change_lock);
  apply({block, p.index, wish}, pages, /*is_queued=*/false);
}

void ViewSwitcher::withdraw(Processor p, BlockIndex block, const PageMask& pages) {
  const Request wish{block, p.index, Wish::see};
  Queue& queue = this->queue(p);
  const LockGuard guard(queue.lock);
  if (const auto request = queue.requested.find(wish); request != queue.requested.end())
    request->second -= pages;
  if (queue.current == wish) queue.withdrawn |= pages;
}

PageMask ViewSwitcher::withdrawn(Processor p) {
  Queue& queue = this->queue(p);
  const LockGuard guard(queue.lock);
  return queue.withdrawn;
}

bool ViewSwitcher::wait_until_done(int limit_ms) {
  return wait_until_done(0, engine_.processors(), limit_ms);
}

bool ViewSwitcher::wait_until_done(Processor p, int limit_ms) {
  return wait_until_done(p.index, p.index + 1, limit_ms);
}

bool ViewSwitcher::wait_until_done(int first, int last, int limit_ms) {
  Patience patience(static_cast<std::uint64_t>(limit_ms) * 1'000'000, AtLimit::goes_on);
  bool all = true;
  for (int p = first; p < last; ++p) {
    Queue& queue = this->queue(Processor{p});
    const LockGuard guard(queue.lock);
    const std::uint64_t awaited = queue.issued;
    for (; queue.completed < awaited; patience.note_wait()) {
      if (patience.is_over()) return false;
      if (is_overdue(Processor{p})) {
        all = false;
        break;
      }
      queue.changed.wait_for(queue.lock, patience.next_slice());
    }
  }
  return all;
}

std::optional<ViewSwitcher::Request> ViewSwitcher::Queue::take(PageMask& pages) {
  const LockGuard guard(lock);
  while (!stopping && order.empty()) changed.wait(lock);
  if (stopping) return std::nullopt;
  current = order.front();
  order.pop_front();
  pages = requested.extract(current).mapped();
  withdrawn = {};
  return current;
}

void ViewSwitcher::work(Queue& queue, int processor) {
  name_this_thread("wherry-views" + std::to_string(processor));
  thread_gets_no_signals();
  PageMask pages;
  while (const auto request = queue.take(pages)) {
    {
      const LockGuard one_at_a_time(queue.change_lock);
      apply(*request, pages, /*is_queued=*/true);
    }
    {
      const LockGuard guard(queue.lock);
      ++queue.completed;
    }
    queue.changed.notify_all();
  }
}

void ViewSwitcher::apply(const Request& request, const PageMask& pages, bool is_queued) {
  const Processor p{request.processor};
  Block& state = blocks_.at(request.block);
  for (PageMask left = pages;;) {
    PageRun run;
    Processor owner;
    const bool may_see = request.wish != Wish::see || may_see_others(p);
    {
      const LockedBlock block(request.block, state);
      if (is_queued) left -= withdrawn(p);
      run = next_change(block, request, left, owner);
      if (run.count == 0) return;
      if (owner != p && !may_see) continue;
      engine_.entries().unmap(block, PageMask::of(run), p);
      try {
        block.state.switch_begun(p, run);
      } catch (const std::bad_alloc&) {
        // The view stays as it is. For a while requests for changes of p's views are declined.
        accounts_[static_cast<unsigned>(p.index)].fails_until = now_ns() + decline_ns;
        return;
      }
    }
    change(request.block, state, p, run, owner);
  }
}

PageRun ViewSwitcher::next_change(const LockedBlock& block, const Request& request, PageMask& left,
                                  Processor& owner) {
  const Processor p{request.processor};
  if (request.wish == Wish::see) {
    // Pages that p's view shows already only have to be mapped.
    PageMask shown;
    for (int i = 0; i < engine_.processors(); ++i)
      shown |= block.state.viewed(p, Processor{i}) & block.state.at(Processor{i}).resident;
    enter(block, p, left & shown);
    left -= shown;
  }
  // Pages for which p's view shows p's own pool need no change. For `see` this is true only of
  // pages that no pool holds.
  left -= request.wish == Wish::see ? block.state.absent() - block.state.foreign(p)
                                    : ~block.state.foreign(p);
  if (request.wish == Wish::tidy) left &= block.state.absent();
  const PageRun first = left.next_run(0);
  if (first.count == 0) return first;
  PageMask alike = left;
  owner = p;
  if (request.wish == Wish::see) {
    const ProcessorMask residents = block.state.residents(first.first);
    if (residents != 0 && (residents & p.bit()) == 0)
      owner = Processor{std::countr_zero(residents)};
    alike &= residents != 0 ? block.state.at(owner).resident : block.state.absent();
  }
  const PageRun run = alike.next_run(first.first);
  left -= PageMask::of(run);
  return run;
}

void ViewSwitcher::change(BlockIndex index, Block& state, Processor p, PageRun run,
                          Processor owner) {
  Account& account = accounts_[static_cast<unsigned>(p.index)];
  const int error =
      changers_[static_cast<unsigned>(p.index)]->change_view(span_of(index, run), owner);
  account.since += mappings_per_change;
  const LockedBlock block(index, state);
  if (error != 0) {
    block.state.switch_failed(p, run);
    account.fails_until = now_ns() + decline_ns;
    return;
  }
  block.state.switched(p, run, owner);
  enter(block, p, PageMask::of(run) & block.state.at(owner).resident);
}

void ViewSwitcher::enter(const LockedBlock& block, Processor p, const PageMask& pages) {
  const PageMask wanted =
      pages - block.state.at(p).mapped - block.state.switching(p) - block.state.in_flight();
  if (wanted.count() == pages_per_block && engine_.entries().enter_whole(block, p)) return;
  for (int i = 0; i < engine_.processors(); ++i)
    for (const PageRun run : runs_of(wanted & block.state.viewed(p, Processor{i})))
      (void)engine_.map(block, run, p);  // a page that cannot be mapped faults later
}

bool ViewSwitcher::may_see_others(Processor p) {
  if (budget_ == 0) return true;
  Account& account = accounts_[static_cast<unsigned>(p.index)];
  if (account.counted + account.since + mappings_per_change <= budget_) return true;
  account.counted = changers_[static_cast<unsigned>(p.index)]->count_mappings();
  account.since = 0;
  if (account.counted + mappings_per_change <= budget_) return true;
  account.declines_until = now_ns() + decline_ns;
  return false;
}

}  // namespace wherry::impl
