// The runtime's part in memory that stays where it is: devices' own, with those whom it is for, and
// what the program pins.
#include <algorithm>
#include <bit>
#include <chrono>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/patience.h"
#include "migration/creation.h"
#include "os/files/range_mark.h"
#include "os/process/poll.h"
#include "runtime/runtime.h"

namespace wherry::impl {
namespace {

// Bounds what waiting for others can cost: for what they have reserved and not used yet, for pages
// that are being moved, for messages of the kernel.
constexpr std::uint64_t create_limit_ns = 10'000'000'000;
constexpr auto pause = std::chrono::microseconds(50);

}  // namespace

bool Runtime::create_in_block(std::uint64_t number, PageRun run, Processor p) {
  Reservation reservation;
  for (Patience patience(create_limit_ns); !patience.is_over(); patience.note_wait()) {
    const OpStatus status = create_pages(*engine_, *evictor_, blocks_, number, run, p, reservation);
    if (status != OpStatus::incomplete) return status == OpStatus::ok;
    std::this_thread::sleep_for(pause);
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
  for (int i = 0; i < processor_count(); ++i)
    engine_->collapse(block, number, run, Processor{i}, MoveCause::advice);
  (void)effects_->follow(block, number, run);
  return true;
}

bool Runtime::settle_pinned(PageSpan pages) {
  Patience patience(create_limit_ns);
  bool fits = true;
  advice_.for_each(pages, [&](const AdviceMap::Segment& segment) {
    for (PageSpan left = segment.span; !left.empty();) {
      const std::uint64_t number = block_of(left.first);
      const PageRun run = run_in_block(number, left);
      for (; !collapse_pinned(number, run) && !patience.is_over(); patience.note_wait())
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

Runtime::PinResult Runtime::pin(PageSpan pages, std::vector<PageSpan>* fresh_pages) {
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
  if (settle_pinned(pages)) {
    record_advice(pages, {AdviceChange::Kind::pinned, {}});
    if (fresh_pages != nullptr) *fresh_pages = std::move(fresh);
    return PinResult::pinned;
  }
  for (const PageSpan span : fresh) advice_.change(span, {AdviceChange::Kind::unpinned, {}});
  return PinResult::no_room;
}

bool Runtime::unpin(PageSpan pages) {
  const ReadGuard guard(advice_lock_);
  if (!is_managed(pages)) return false;
  const AdviceChange change{AdviceChange::Kind::unpinned, {}};
  advice_.change(pages, change);
  record_advice(pages, change);
  return true;
}

std::vector<Runtime::Extent> Runtime::locate(PageSpan pages) {
  std::vector<Extent> extents;
  for (std::uint64_t page = pages.first; page < pages.end(); ++page) {
    Block& block = blocks_.at(block_of(page));
    int owner = 0;
    {
      const LockGuard guard(block.lock);
      owner = std::countr_zero(block.residents(static_cast<unsigned>(page % pages_per_block)));
    }
    const int fd = pools_[static_cast<std::size_t>(owner)]->file().fd();
    if (!extents.empty() && extents.back().fd == fd)
      ++extents.back().pages.count;
    else
      extents.push_back({{page, 1}, fd});
  }
  return extents;
}

bool Runtime::claim_device_pages(Processor p, std::uint64_t pages) {
  // Nothing is evicted for what could not be had by evicting everything.
  std::atomic<std::uint64_t>& taken = claimed_pages(p);
  if (pages > capacity_pages(p)) return false;
  if (taken.fetch_add(pages) + pages <= capacity_pages(p)) return true;
  taken.fetch_sub(pages);
  return false;
}

Runtime::FilePlace Runtime::file_place(std::uintptr_t address, int device) const {
  const auto owner = static_cast<std::size_t>(Processor::device(device).index);
  return {pools_[owner]->file().fd(), *offset_of(address)};
}

bool Runtime::is_open_elsewhere(std::uintptr_t address, std::size_t bytes, int device) const {
  const FilePlace place = file_place(address, device);
  return is_range_marked(place.fd, place.offset, round_up(bytes, page_size));
}

std::optional<Allocation> Runtime::reserve_device(std::size_t bytes, Ownership owner) {
  const Processor p = *owner.device;
  const std::uint64_t pages = bytes / page_size + (bytes % page_size != 0 ? 1 : 0);
  if (!claim_device_pages(p, pages)) return std::nullopt;
  const auto allocation = place(bytes, 0, owner);
  if (!allocation) {
    claimed_pages(p).fetch_sub(pages);
    return std::nullopt;
  }
  try {
    advice_.change(allocation->pages(), {AdviceChange::Kind::pinned, {}});
    return allocation;
  } catch (const std::bad_alloc&) {
    // As good as no room.
    free(address_of(*allocation));
    return std::nullopt;
  }
}

bool Runtime::create_device(std::uintptr_t address, std::size_t bytes, int device) {
  const std::uint64_t first = *layout().page_of(address);
  try {
    return create({first, round_up(bytes, page_size) / page_size}, Processor::device(device));
  } catch (const std::bad_alloc&) {
    return false;
  }
}

std::optional<Allocation> Runtime::allocate_device(std::size_t bytes, Ownership owner) {
  const auto allocation = reserve_device(bytes, owner);
  if (!allocation || create_device(address_of(*allocation), bytes, owner.device->ordinal()))
    return allocation;
  free(address_of(*allocation));
  return std::nullopt;
}

std::optional<unsigned> Runtime::begin_audience(int device) {
  const LockGuard guard(audiences_lock_);
  for (unsigned audience = Audiences::first_other; audience < Audiences::end; ++audience) {
    if (audiences_in_use_.test(audience)) continue;
    audiences_in_use_.set(audience);
    page_owners_.audiences().begin(audience, Processor::device(device));
    return audience;
  }
  return std::nullopt;
}

void Runtime::end_audience(unsigned audience) {
  const LockGuard guard(audiences_lock_);
  audiences_in_use_.reset(audience);
}

void Runtime::admit(unsigned audience, int device) {
  page_owners_.audiences().admit(audience, Processor::device(device));
}

void Runtime::exclude(unsigned audience, int device) {
  const Processor p = Processor::device(device);
  // Whoever answers a fault after this refuses it, so that no mapping comes that is not taken back.
  page_owners_.audiences().exclude(audience, p);
  // What has ended has no mappings, and the next one starts without any.
  const auto has_ended = [&] {
    pollfd ended{process(device)->pidfd(), POLLIN, 0};
    return poll_descriptors(std::span(&ended, 1), 0) > 0;
  };
  // It may be ending.
  if (!has_ended() && !effects_->take_back(address_space_.pages_for(audience), p) && !has_ended())
    log_line("device {} still has mappings of memory that it may not access any more", device);
}

std::optional<HostRange> Runtime::allocate_host(std::size_t bytes, bool apart) {
  const std::uint64_t most = capacity_pages(Processor::host());
  if (bytes > most * page_size) return std::nullopt;
  const std::uint64_t pages = round_up(bytes, page_size) / page_size;
  if (!take_host_room(pages)) return std::nullopt;
  if (const auto range = host_memory_.allocate(bytes, apart)) return range;
  give_room_back(Processor::host(), pages);
  return std::nullopt;
}

void Runtime::free_host(const HostRange& range) {
  host_memory_.free(range);
  give_room_back(Processor::host(), round_up(range.bytes, page_size) / page_size);
}

bool Runtime::take_host_room(std::uint64_t pages) {
  if (!part(Processor::host()).memory.capacity.try_reserve(pages)) return false;
  host_pages_.fetch_add(pages);
  // What has been promised to managed memory stays.
  if (options_.topology.host_capacity == 0 || managed_pages_.load() <= managed_pages_max())
    return true;
  give_room_back(Processor::host(), pages);
  return false;
}

bool Runtime::grow(Reservation& reservation, Processor p, std::uint64_t pages) {
  for (Patience patience(create_limit_ns); !patience.is_over(); patience.note_wait()) {
    const OpStatus status = evictor_->make_room({p, pages}, reservation);
    if (status != OpStatus::incomplete) return status == OpStatus::ok;
    std::this_thread::sleep_for(pause);
  }
  return false;
}

bool Runtime::take_device_room(Processor p, std::uint64_t pages) {
  if (!claim_device_pages(p, pages)) return false;
  Reservation reservation;
  // In steps, each of which may wait.
  while (reservation.pages() < pages) {
    if (grow(reservation, p, std::min(pages, reservation.pages() + pages_per_block))) continue;
    claimed_pages(p).fetch_sub(pages);
    return false;
  }
  reservation.spend(pages);
  part(p).memory.capacity.keep(pages);
  return true;
}

bool Runtime::take_room(Processor p, std::uint64_t pages) {
  return p.is_host() ? take_host_room(pages) : take_device_room(p, pages);
}

void Runtime::give_room_back(Processor p, std::uint64_t pages) {
  auto& taken = p.is_host() ? host_pages_ : claimed_pages(p);
  taken.fetch_sub(pages);
  Capacity& capacity = part(p).memory.capacity;
  if (p.is_host())
    capacity.give_back(pages);
  else
    capacity.give_kept_back(pages);
}

int Runtime::place(const MemoryFile& file, std::size_t bytes, Location location) const {
  if (has_one_node()) return 0;
  if (location.kind == Location::Kind::device)
    return file.bind_nodes(0, bytes, std::span(&device_config(location.id).node, 1));
  if (location.kind == Location::Kind::host_node)
    return file.prefer_nodes(0, bytes, std::span(&location.id, 1));
  return file.prefer_nodes(0, bytes, options_.topology.host_nodes);
}

}  // namespace wherry::impl
