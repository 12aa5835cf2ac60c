// Has processors see the pools that hold the pages they want, where those are not their own: remote
// mappings, and the way back. Threads of its own, because changing a view takes as long as
// answering a fault does, and whoever waited for that under a block's lock would keep the fault
// from being answered. One thread and one queue for each processor: a device that is stopped, or
// slow, keeps only its own changes waiting.
//
// Requests may be refused (a process can have only so many mappings) and may come to nothing (the
// page has moved on, the process is gone): whoever wants something looks again.
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
  // Ends after the change under way.
  ~ViewSwitcher() override;
  // Nothing is carried out before. Once.
  void start();

  [[nodiscard]] bool request(Processor p, BlockIndex block, const PageMask& pages,
                             Wish wish) override;
  void withdraw(Processor p, BlockIndex block, const PageMask& pages) override;
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
    // Both grow while threads wait for what they ask for.
    std::pmr::deque<Request> order GUARDED_BY(lock){&mapped_memory()};
    // Which pages of the block.
    std::pmr::map<Request, PageMask> requested GUARDED_BY(lock){&mapped_memory()};
    // Of the request under way.
    Request current GUARDED_BY(lock){};
    PageMask withdrawn GUARDED_BY(lock);
    std::uint64_t issued GUARDED_BY(lock) = 0;     // requests queued so far
    std::uint64_t completed GUARDED_BY(lock) = 0;  // ... and carried out, in the same order
    bool stopping GUARDED_BY(lock) = false;
    std::thread thread;

    // Takes the next request; waits for one. Nothing: it is time to stop.
    std::optional<Request> take(PageMask& pages) EXCLUDES(lock);
  };
  // What is known of one process's mappings. The thread's own, but for `declines_until`.
  struct Account {
    std::uint64_t counted = 0;  // by the kernel
    std::uint64_t since = 0;    // at most so many more since then
    // As now_ns() counts: no remote mappings, no changes at all.
    std::atomic<std::uint64_t> declines_until{0};
    std::atomic<std::uint64_t> fails_until{0};
  };

  Queue& queue(Processor p) { return queues_[static_cast<unsigned>(p.index)]; }
  // Of the processors from `first` up to and without `last`.
  bool wait_until_done(int first, int last, int limit_ms);
  void work(Queue& queue, int processor);
  void apply(const Request& request, const PageMask& pages);
  PageMask withdrawn(Processor p);
  // The next run of pages whose view must change, taken out of `left`, and whose pool it becomes;
  // empty: nothing is left to do.
  PageRun next_change(const LockedBlock& block, const Request& request, PageMask& left,
                      Processor& owner) REQUIRES(block.state.lock);
  // Changes the view of one run to the pool of `owner`.
  void change(BlockIndex index, Block& state, Processor p, PageRun run, Processor owner);
  // Enters what p's view holds of the pages.
  void enter(const LockedBlock& block, Processor p, const PageMask& pages)
      REQUIRES(block.state.lock);
  // Whether p may have mappings of other pools. Asks the kernel now and then, which takes a while.
  bool may_see_others(Processor p);

  PageEngine& engine_;
  BlockDirectory& blocks_;
  std::array<ViewChanger*, max_processors> changers_{};
  const std::uint64_t budget_;
  std::array<Account, max_processors> accounts_;

  std::array<Queue, max_processors> queues_;
};

}  // namespace wherry::impl
