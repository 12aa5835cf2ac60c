// Brings memory to where the program says that it will be used, beside everything else: a few copiers, each a thread
// with a carrier of its own, take one block's part of a request after the other.
//
// Memory stays usable meanwhile. Who touches a page in flight waits for that flight; a page whose turn has not come is
// answered as ever, and is looked at anew when it has.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "memory/carrier.h"
#include "migration/advice_effects.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "migration/prefetch_request.h"
#include "pages/address_space.h"
#include "pages/advice.h"
#include "pages/block_directory.h"

namespace wherry::impl {

class Prefetcher {
 public:
  struct Parts {
    PageEngine& engine;
    BlockDirectory& blocks;
    const AddressSpace& address_space;
    AdviceEffects& effects;
    Evictor& evictor;
  };
  // Called once by each copier's thread, which is the only one to use what it returns.
  using MakeCarrier = std::function<std::unique_ptr<Carrier>(unsigned copier)>;

  struct Limits {
    // The first one works whenever there is something to do, the others while a CPU has nothing else to run.
    unsigned copiers = 1;
    // Below this a flight costs more than it saves: pages are copied and mapped in one call, under the lock.
    unsigned flight_pages_min = 1;
    bool host_has_nodes = false;  // several
    std::vector<int> cpus = {};   // copiers run on these, near to the host's memory; empty: on any
  };
  Prefetcher(const Parts& parts, MakeCarrier make_carrier, Limits limits);
  // Lands what is in flight; the rest of the requests is dropped, and not reported.
  ~Prefetcher();
  // No copying begins before. Once.
  void start();

  // Returns at once. done() is called once, by a copier, when each page has had its turn: where there is no room, or no
  // memory, pages stay where they are. No page is brought twice, or two requests could take it from each other for ever.
  void submit(const PrefetchRequest& request, std::function<void()> done);

 private:
  struct Range : PrefetchRange {
    std::uint64_t allocation = 0;  // its id: what comes to lie there later is not meant
  };
  struct Task {
    PrefetchRequest::Kind kind = PrefetchRequest::Kind::prefetch;
    std::vector<Range> ranges;
    std::uint32_t epoch = 0;
    std::function<void()> done;
    std::size_t range = 0;            // of the next step
    std::uint64_t block = 0;          // ... or 0: the range's first
    std::vector<std::uint64_t> open;  // blocks of the steps that were taken and are not done
    ProcessorMask full = 0;           // no room: nothing more is prefetched there

    bool has_more_steps() const { return range < ranges.size(); }
  };
  using TaskPlace = std::list<Task>::iterator;

  // One block's part of one range.
  struct Step {
    TaskPlace task;
    PrefetchRequest::Kind kind;
    Range range;  // only what lies in the block
    std::uint64_t number;
    std::uint32_t epoch;
    bool discarded = false;
    PageMask had_turn = {};                // what others take away after that stays with them
    int failures = 0;                      // flights that turned back
    unsigned pages_max = pages_per_block;  // there was no room for more at a time
    std::uint64_t first_ns = 0;            // when it was first kept waiting
    std::uint64_t due_ns = 0;              // when to look again

    Processor to() const { return range.to.processor(); }
    PageRun run() const { return run_in_block(number, range.pages); }
  };
  // A step whose pages are in flight.
  struct Leg {
    Step step;
    Flight flight;
    Room room;
  };
  enum class Progress {
    flies,  // a flight has begun
    moves,  // something has been done: look again
    waits,  // look again in a moment
    done,
    stuck,  // there is no room, and none can be made
  };
  // What a step needs next.
  struct Need {
    Progress progress = Progress::done;
    PageRun run;
    Cargo::Kind kind = Cargo::Kind::move;
    Processor from;
  };

  void work(unsigned copier);
  // A step whose time has come; nothing: none has, or the CPU is wanted elsewhere. Waits for one if `wait`.
  std::optional<Step> take(unsigned copier, bool wait);
  // Whether the program leaves a CPU to this copier.
  bool may_work(unsigned copier);
  std::optional<Step> next_step();
  std::optional<Step> next_of(TaskPlace task);
  void put_back(Step step);
  void finish(const Step& step, bool stuck);

  // Begins what comes next of a step.
  Progress advance(Leg& leg);
  Progress advance_locked(Leg& leg, Block& block, std::uint64_t& room_needed) REQUIRES(block.lock);
  Need next_need(const Step& step, const Block& block) const REQUIRES(block.lock);
  Progress carry_now(Leg& leg, Block& block, const Need& need) REQUIRES(block.lock);
  Progress discard(Step& step, Block& block) REQUIRES(block.lock);
  // All pages are there: has them mapped.
  Progress settle(const Step& step, Block& block) REQUIRES(block.lock);
  void note_arrival(Step& step, Block& block, PageRun run) REQUIRES(block.lock);
  void land(Leg& leg, const Delivery& delivery);

  const Parts parts_;
  const MakeCarrier make_carrier_;
  const Limits limits_;
  const unsigned cpus_;
  // Threads that prefetching keeps busy: copiers that are awake, and kernel threads that copy.
  std::atomic<unsigned> busy_threads_{0};
  std::atomic<unsigned> others_average_{0};  // threads of others that want a CPU

  std::mutex lock_;                  // a leaf
  std::condition_variable work_;     // for the first copier: there is something to do
  std::condition_variable surplus_;  // for the others: there is more than that one does at once
  std::list<Task> tasks_;  // the next step is the first one's, which then becomes the last
  std::deque<Step> put_back_;
  bool stopping_ = false;
  std::vector<std::thread> copiers_;
};

}  // namespace wherry::impl
