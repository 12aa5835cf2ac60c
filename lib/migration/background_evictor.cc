#include "migration/background_evictor.h"

#include <algorithm>

#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// A pool of fewer blocks has no watermarks: an eviction frees a whole block, and blocks kept free
// would cost more hits than the waiting that they save.
constexpr std::uint64_t blocks_min = 16;
constexpr std::uint64_t free_share = 64;

// With this number every kept block is sampled while the pool's contents are exchanged once. A
// sampled block costs one fault of 4 KiB, and a share of a command to the device. An eviction, with
// the return of its pages, costs hundreds of times as much.
constexpr std::uint64_t samples_per_eviction = 1;

// A pool that stays full does not notify the thread again, so the thread looks again by itself.
constexpr int retry_ms = 2;
constexpr int held_retry_ms = 50;
constexpr int idle_ms = 10'000;

}  // namespace

Watermarks Watermarks::of(std::uint64_t capacity_pages) {
  if (capacity_pages < blocks_min * pages_per_block) return {};
  const std::uint64_t low = std::max<std::uint64_t>(pages_per_block, capacity_pages / free_share);
  return {low, 2 * low};
}

void BackgroundEvictor::start() {
  for (int i = 1; i < engine_.processors(); ++i) {
    Capacity& capacity = engine_.at(Processor{i}).capacity;
    if (const Watermarks marks = Watermarks::of(capacity.pages()); marks.low != 0)
      capacity.notify_above(capacity.pages() - marks.low, notifier_);
  }
  const SignalBlock no_signals;
  thread_ = std::thread([this] { work(); });
}

BackgroundEvictor::~BackgroundEvictor() {
  stopping_ = true;
  notifier_.notify();
  if (thread_.joinable()) thread_.join();
}

void BackgroundEvictor::work() {
  name_this_thread("wherry-evict");
  thread_gets_no_signals();
  while (!stopping_) {
    const std::uint32_t seen = notifier_.seen();
    bool relieved = true;
    for (int i = 1; i < engine_.processors(); ++i) relieved = relieve(Processor{i}) && relieved;
    const int pause_ms = free_held_() ? idle_ms : held_retry_ms;
    notifier_.wait(seen, relieved ? pause_ms : retry_ms);
  }
}

bool BackgroundEvictor::relieve(Processor p) {
  Capacity& capacity = engine_.at(p).capacity;
  const Watermarks marks = Watermarks::of(capacity.pages());
  const auto free_pages = [&] { return capacity.pages() - capacity.reserved(); };
  if (free_pages() >= marks.low) return true;
  give_up_(p);
  std::uint64_t evicted = 0;
  for (; free_pages() < marks.high && !stopping_; ++evicted) {
    const ReservationRequest request{p, 0, engine_.resident_blocks(p).last_arrival(),
                                     evictor_.latest_round(p),
                                     /*background=*/true};
    switch (evictor_.evict_one(request)) {
      case OpStatus::ok:
        break;
      case OpStatus::absent:
      case OpStatus::held:
      case OpStatus::no_memory:
        // No more can be evicted now. A thread that needs pages requests them itself.
        return true;
      default:
        return false;
    }
  }
  sampler_.sample(p, evicted * samples_per_eviction);
  return true;
}

}  // namespace wherry::impl
