#include "migration/view_switcher.h"

#include <bit>
#include <chrono>

#include "base/clock.h"
#include "os/thread.h"

namespace wherry::impl {
namespace {

// A change can split one mapping in three.
constexpr std::uint64_t mappings_per_change = 2;
// Counting a process's mappings takes the kernel a while.
constexpr std::uint64_t decline_ns = 100'000'000;

}  // namespace

ViewSwitcher::ViewSwitcher(PageEngine& engine, BlockDirectory& blocks,
                           std::span<ViewChanger* const> changers, std::uint64_t mappings_budget)
    : engine_(engine), blocks_(blocks), budget_(mappings_budget) {
  for (std::size_t i = 0; i < changers.size(); ++i) {
    changers_[i] = changers[i];
    // Counted before the first change.
    accounts_[i].since = budget_;
  }
}

void ViewSwitcher::start() {
  const SignalBlock no_signals;
  thread_ = std::thread([this] { work(); });
}

ViewSwitcher::~ViewSwitcher() {
  {
    const LockGuard guard(queue_lock_);
    stopping_ = true;
  }
  queue_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool ViewSwitcher::request(Processor p, std::uint64_t number, const PageMask& pages, Wish wish) {
  const Account& account = accounts_[static_cast<unsigned>(p.index)];
  const std::uint64_t now = now_ns();
  if (now < account.fails_until.load()) return false;
  if (wish == Wish::see && now < account.declines_until.load()) return false;
  {
    const LockGuard guard(queue_lock_);
    const auto [request, is_new] = requested_.try_emplace({number, p.index, wish}, PageMask{});
    if (is_new) {
      order_.push_back(request->first);
      ++issued_;
    }
    request->second |= pages;
  }
  queue_changed_.notify_all();
  return true;
}

void ViewSwitcher::withdraw(Processor p, std::uint64_t number, const PageMask& pages) {
  const Request wish{number, p.index, Wish::see};
  const LockGuard guard(queue_lock_);
  if (const auto request = requested_.find(wish); request != requested_.end())
    request->second -= pages;
  if (current_ == wish) withdrawn_ |= pages;
}

ViewSwitcher::Request ViewSwitcher::current_request() {
  const LockGuard guard(queue_lock_);
  return current_;
}

PageMask ViewSwitcher::withdrawn() {
  const LockGuard guard(queue_lock_);
  return withdrawn_;
}

bool ViewSwitcher::wait_until_done(int limit_ms) {
  const LockGuard guard(queue_lock_);
  const std::uint64_t awaited = issued_;
  return queue_changed_.wait_for(queue_lock_, std::chrono::milliseconds(limit_ms),
                                 [&]() REQUIRES(queue_lock_) { return completed_ >= awaited; });
}

bool ViewSwitcher::take_request(PageMask& pages) {
  const LockGuard guard(queue_lock_);
  while (!stopping_ && order_.empty()) queue_changed_.wait(queue_lock_);
  if (stopping_) return false;
  current_ = order_.front();
  order_.pop_front();
  pages = requested_.extract(current_).mapped();
  withdrawn_ = {};
  return true;
}

void ViewSwitcher::work() {
  name_this_thread("wherry-views");
  thread_gets_no_signals();
  PageMask pages;
  while (take_request(pages)) {
    {
      const LockGuard one_at_a_time(change_lock_);
      carry_out(current_request(), pages);
    }
    {
      const LockGuard guard(queue_lock_);
      ++completed_;
    }
    queue_changed_.notify_all();
  }
}

void ViewSwitcher::carry_out(const Request& request, const PageMask& pages) {
  const Processor p{request.processor};
  Block& block = blocks_.at(request.number);
  for (PageMask left = pages;;) {
    PageRun run;
    Processor owner;
    const bool may_see = request.wish != Wish::see || may_see_others(p);
    {
      const LockGuard guard(block.lock);
      left -= withdrawn();
      run = next_change(block, request, left, owner);
      if (run.count == 0) return;
      if (owner != p && !may_see) continue;
      engine_.unmap(block, request.number, PageMask::of(run), p);
      block.switch_begun(p, run);
    }
    change(block, p, request.number, run, owner);
  }
}

PageRun ViewSwitcher::next_change(Block& block, const Request& request, PageMask& left,
                                  Processor& owner) {
  const Processor p{request.processor};
  if (request.wish == Wish::see) {
    // What p's view shows already only has to be entered.
    PageMask shown;
    for (int i = 0; i < engine_.processors(); ++i)
      shown |= block.viewed(p, Processor{i}) & block.at(Processor{i}).resident;
    enter(block, p, request.number, left & shown);
    left -= shown;
  }
  // Nothing is wrong with an own view of what no pool holds, or of what need not be seen.
  left -= request.wish == Wish::see ? block.absent() - block.foreign(p) : ~block.foreign(p);
  if (request.wish == Wish::tidy) left &= block.absent();
  const PageRun first = left.next_run(0);
  if (first.count == 0) return first;
  PageMask alike = left;
  owner = p;
  if (request.wish == Wish::see) {
    const ProcessorMask residents = block.residents(first.first);
    if (residents != 0 && (residents & p.bit()) == 0)
      owner = Processor{std::countr_zero(residents)};
    alike &= residents != 0 ? block.at(owner).resident : block.absent();
  }
  const PageRun run = alike.next_run(first.first);
  left -= PageMask::of(run);
  return run;
}

void ViewSwitcher::change(Block& block, Processor p, std::uint64_t number, PageRun run,
                          Processor owner) {
  Account& account = accounts_[static_cast<unsigned>(p.index)];
  const int error =
      changers_[static_cast<unsigned>(p.index)]->change_view(span_of(number, run), owner);
  account.since += mappings_per_change;
  const LockGuard guard(block.lock);
  if (error != 0) {
    block.switch_failed(p, run);
    account.fails_until = now_ns() + decline_ns;
    return;
  }
  block.switched(p, run, owner);
  enter(block, p, number, PageMask::of(run) & block.at(owner).resident);
}

void ViewSwitcher::enter(Block& block, Processor p, std::uint64_t number, const PageMask& pages) {
  const PageMask wanted = pages - block.at(p).mapped - block.switching(p) - block.in_flight();
  for (int i = 0; i < engine_.processors(); ++i)
    for (const PageRun run : runs_of(wanted & block.viewed(p, Processor{i})))
      (void)engine_.map(block, number, run, p);  // what cannot be entered faults
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
