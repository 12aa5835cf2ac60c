// The runtime's part in memory that stays where it is: a device's own, and what the program pins.
#include <chrono>
#include <new>
#include <thread>
#include <vector>

#include "api/runtime.h"
#include "base/clock.h"

namespace wherry::impl {
namespace {

// Bounds what waiting for others can cost: for what they have reserved and not used yet, for pages
// that are being moved, for messages of the kernel.
constexpr std::uint64_t create_limit_ns = 10'000'000'000;
constexpr auto pause = std::chrono::microseconds(50);

}  // namespace

bool Runtime::create_in_block(std::uint64_t number, PageRun run, Processor p) {
  const std::uint64_t deadline = now_ns() + create_limit_ns;
  Block& block = blocks_.at(number);
  Room room;
  // A process that is gone has no page table; a new one finds the pages in the pool.
  Entry entry = Entry::at_home;
  while (now_ns() < deadline) {
    OpStatus status = OpStatus::ok;
    PageMask wanted;
    {
      const LockGuard guard(block.lock);
      wanted = PageMask::of(run) & block.absent();
      const PageMask ready = wanted - block.in_flight();
      if (wanted.none()) return true;
      if (ready != wanted || !room.try_grow(engine_->at(p).capacity, wanted.count())) {
        status = OpStatus::incomplete;
      } else {
        for (const PageRun part : runs_of(wanted)) {
          status = engine_->populate(block, number, part, p, room, entry).status;
          if (status != OpStatus::ok) break;
        }
      }
    }
    if (status == OpStatus::ok) return true;
    if (status == OpStatus::no_memory) return false;
    if (status == OpStatus::process_gone) entry = Entry::none;
    const OpStatus made =
        evictor_->make_room({p, wanted.count(), span_of(number, run).first}, room);
    if (made == OpStatus::absent || made == OpStatus::no_memory) return false;
    if (status == OpStatus::incomplete) std::this_thread::sleep_for(pause);
  }
  return false;
}

bool Runtime::create(PageSpan pages, Processor p) {
  for (PageSpan left = pages; !left.empty();) {
    const std::uint64_t number = block_of(left.first);
    const PageRun run = run_in_block(number, left);
    if (!create_in_block(number, run, p)) return false;
    left = {left.first + run.count, left.count - run.count};
  }
  return true;
}

bool Runtime::collapse_pinned(std::uint64_t number, PageRun run) {
  Block& block = blocks_.at(number);
  const LockGuard guard(block.lock);
  if (!(PageMask::of(run) & block.in_flight()).none()) return false;
  // The host's copy stays where there is one, else the lowest device's.
  for (int i = 0; i < processor_count(); ++i) engine_->collapse(block, number, run, Processor{i});
  (void)effects_->follow(block, number, run);
  return true;
}

bool Runtime::settle_pinned(PageSpan pages) {
  const std::uint64_t deadline = now_ns() + create_limit_ns;
  bool fits = true;
  advice_.for_each(pages, [&](const AdviceMap::Segment& segment) {
    for (PageSpan left = segment.span; !left.empty();) {
      const std::uint64_t number = block_of(left.first);
      const PageRun run = run_in_block(number, left);
      while (!collapse_pinned(number, run) && now_ns() < deadline)
        std::this_thread::sleep_for(pause);
      left = {left.first + run.count, left.count - run.count};
    }
    const Location preferred = segment.advice.preferred;
    const Processor p = preferred.is_none() ? Processor::host() : preferred.processor();
    fits = create(segment.span, p) || (!p.is_host() && create(segment.span, Processor::host()));
    return fits;
  });
  return fits;
}

Runtime::PinResult Runtime::pin(PageSpan pages) {
  // Held to the end: nothing may be created for an allocation that has gone.
  const ReadGuard guard(advice_lock_);
  if (!is_managed(pages)) return PinResult::not_managed;
  std::vector<PageSpan> fresh;
  advice_.for_each(pages, [&](const AdviceMap::Segment& segment) {
    if (!segment.advice.pinned) fresh.push_back(segment.span);
    return true;
  });
  // From here on no fault, eviction or prefetch takes them away.
  advice_.change(pages, {AdviceChange::Kind::pinned, {}});
  if (settle_pinned(pages)) return PinResult::pinned;
  for (const PageSpan span : fresh) advice_.change(span, {AdviceChange::Kind::unpinned, {}});
  return PinResult::no_room;
}

bool Runtime::unpin(PageSpan pages) {
  const ReadGuard guard(advice_lock_);
  if (!is_managed(pages)) return false;
  advice_.change(pages, {AdviceChange::Kind::unpinned, {}});
  return true;
}

std::optional<Allocation> Runtime::allocate_device(std::size_t bytes, int device) {
  const Processor p = Processor::device(device);
  const std::uint64_t pages = bytes / page_size + (bytes % page_size != 0 ? 1 : 0);
  // Nothing is evicted for what could not be had by evicting everything.
  std::atomic<std::uint64_t>& taken = device_pages_[static_cast<std::size_t>(device)];
  if (pages > capacity_pages(p)) return std::nullopt;
  if (taken.fetch_add(pages) + pages > capacity_pages(p)) {
    taken.fetch_sub(pages);
    return std::nullopt;
  }
  const auto allocation = place(bytes, 0, {p});
  if (!allocation) {
    taken.fetch_sub(pages);
    return std::nullopt;
  }
  bool created = false;
  try {
    advice_.change(allocation->pages(), {AdviceChange::Kind::pinned, {}});
    created = create(allocation->pages(), p);
  } catch (const std::bad_alloc&) {
    // As good as no room.
  }
  if (created) return allocation;
  free(address_of(*allocation));
  return std::nullopt;
}

std::optional<HostRange> Runtime::allocate_host(std::size_t bytes, bool apart) {
  const std::uint64_t most = capacity_pages(Processor::host());
  if (bytes > most * page_size) return std::nullopt;
  const std::uint64_t pages = round_up(bytes, page_size) / page_size;
  Capacity& capacity = part(Processor::host()).memory.capacity;
  if (!capacity.try_reserve(pages)) return std::nullopt;
  host_pages_.fetch_add(pages);
  // What has been promised to managed memory stays.
  if (options_.topology.host_capacity == 0 || managed_pages_.load() <= managed_pages_max())
    if (const auto range = host_memory_.allocate(bytes, apart)) return range;
  host_pages_.fetch_sub(pages);
  capacity.give_back(pages);
  return std::nullopt;
}

void Runtime::free_host(const HostRange& range) {
  host_memory_.free(range);
  const std::uint64_t pages = round_up(range.bytes, page_size) / page_size;
  host_pages_.fetch_sub(pages);
  part(Processor::host()).memory.capacity.give_back(pages);
}

}  // namespace wherry::impl
