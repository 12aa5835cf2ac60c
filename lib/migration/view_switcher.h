// Carries out requests for changes of processors' views (migration/view_requests.h): remote
// mappings of other processors' pools, and the change back to the processor's own pool. The view
// switcher has threads of its own, because a change of a view takes as long as the resolution of a
// fault. A handler that waited for the change under a block's lock could not resolve faults
// meanwhile. Each processor has one thread and one queue, so a device that is stopped or slow
// delays only its own changes.
//
// A request may be declined (a process can have only so many mappings). A request may also have no
// effect (the page has moved on, the process is gone). So the thread that made it checks the page
// state again later.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <thread>

#include "base/lock.h"
#include "migration/page_engine.h"
#include "migration/view_requests.h"
#include "os/memory/mapped_memory.h"
#include "os/process/condition.h"
#include "pages/block_directory.h"
#include "trap/view_changer.h"

namespace wherry::impl {

class ViewSwitcher final : public ViewRequests {
 public:
  // changers[i] is processor i's; they outlive this. `mappings_budget`: how many mappings one
  // process may have before remote ones are declined; 0: no limit.
  ViewSwitcher(PageEngine& engine, BlockDirectory& blocks, std::span<ViewChanger* const> changers,
               std::uint64_t mappings_budget);
  // Waits for the change under way.
  ~ViewSwitcher() override;
  // Starts the threads, which carry out the requests. Call it once.
  void start();

  [[nodiscard]] bool request(Processor p, BlockIndex block, const PageMask& pages,
                             Wish wish) override;
  void carry_out(Processor p, BlockIndex block, const PageMask& pages, Wish wish) override;
  void withdraw(Processor p, BlockIndex block, const PageMask& pages) override;
  bool is_overdue(Processor p) override {
    return changers_[static_cast<unsigned>(p.index)]->is_overdue();
  }
  bool wait_until_done(int limit_ms) override;
  bool wait_until_done(Processor p, int limit_ms) override;

  // No view of the processor is changed while one of these lives. Waits for the change under way.
  class Pause {
   public:
    Pause(ViewSwitcher& switcher, Processor p) : guard_(switcher.queue(p).change_lock) {}

   private:
    const LockGuard<Mutex> guard_;
  };

 private:
  struct Request {
    BlockIndex block;
    int processor;
    Wish wish;
    auto operator<=>(const Request&) const = default;
  };
  // Changes of one processor's view, in the order in which they were asked for.
  struct Queue {
    Mutex change_lock{LockOrder::changes};
    Mutex lock{LockOrder::view_requests};
    Condition changed;
    // Both grow while faulting threads wait for the requests, so their memory is not malloc's.
    std::pmr::deque<Request> order GUARDED_BY(lock){&mapped_memory()};
    // The pages of each request.
    std::pmr::map<Request, PageMask> requested GUARDED_BY(lock){&mapped_memory()};
    // The request that is being carried out, and those of its pages that were withdrawn since.
    Request current GUARDED_BY(lock){};
    PageMask withdrawn GUARDED_BY(lock);
    std::uint64_t issued GUARDED_BY(lock) = 0;     // requests that were queued
    std::uint64_t completed GUARDED_BY(lock) = 0;  // carried out, in the order of the queue
    bool stopping GUARDED_BY(lock) = false;
    std::thread thread;

    // Waits for a request and takes it. Returns nullopt if the thread must end.
    std::optional<Request> take(PageMask& pages) EXCLUDES(lock);
  };
  // Estimate of the number of one process's mappings. Only the queue's thread uses it, except for
  // the atomics.
  struct Account {
    std::uint64_t counted = 0;  // what Linux reported last
    std::uint64_t since = 0;    // at most this many were added after that
    // Until these times (as now_ns() counts), requests for remote mappings, or all requests, are
    // declined.
    std::atomic<std::uint64_t> declines_until{0};
    std::atomic<std::uint64_t> fails_until{0};
  };

  Queue& queue(Processor p) { return queues_[static_cast<unsigned>(p.index)]; }
  // Waits for the queues of the processors from `first` up to and without `last`.
  bool wait_until_done(int first, int last, int limit_ms);
  void work(Queue& queue, int processor);
  // `is_queued`: the request was queued, so some of its pages may have been withdrawn since.
  void apply(const Request& request, const PageMask& pages, bool is_queued);
  PageMask withdrawn(Processor p);
  // Takes the next run of pages whose view must change out of `left`, and sets `owner` to the
  // processor whose pool it will show. Returns an empty run if nothing is left to do.
  PageRun next_change(const LockedBlock& block, const Request& request, PageMask& left,
                      Processor& owner) REQUIRES(block.state.lock);
  // Changes the view of one run to the pool of `owner`.
  void change(BlockIndex index, Block& state, Processor p, PageRun run, Processor owner);
  // Maps at p those of the pages that p's view shows.
  void enter(const LockedBlock& block, Processor p, const PageMask& pages)
      REQUIRES(block.state.lock);
  // Whether p may have more mappings of other pools. Has Linux count p's mappings now and then,
  // which takes a while.
  bool may_see_others(Processor p);

  PageEngine& engine_;
  BlockDirectory& blocks_;
  std::array<ViewChanger*, max_processors> changers_{};
  const std::uint64_t budget_;
  std::array<Account, max_processors> accounts_;

  std::array<Queue, max_processors> queues_;
};

}  // namespace wherry::impl
