#include "runtime/pool_budget.h"

#include <algorithm>

#include "base/page.h"
#include "runtime/retry.h"

namespace wherry::impl {

std::uint64_t PoolBudget::managed_pages_max() const {
  if (options_.topology.host_capacity == 0) return options_.arena_bytes / page_size;
  std::uint64_t pages = 0;
  for (int i = 0; i < options_.processor_count(); ++i)
    pages += options_.capacity_pages(Processor{i});
  for (const auto& own : device_pages_) pages -= own.load();
  pages -= host_pages_.load();
  return pages;
}

bool PoolBudget::claim_managed(std::uint64_t pages) {
  const std::uint64_t most = managed_pages_max();
  if (managed_pages_.fetch_add(pages) + pages <= most) return true;
  managed_pages_.fetch_sub(pages);
  return false;
}

bool PoolBudget::claim_device(Processor p, std::uint64_t pages) {
  // The first check keeps an impossible request from failing possible ones in other threads.
  const std::uint64_t most = options_.capacity_pages(p);
  if (pages > most) return false;
  std::atomic<std::uint64_t>& taken = device_pages(p);
  if (taken.fetch_add(pages) + pages <= most) return true;
  taken.fetch_sub(pages);
  return false;
}

void PoolBudget::end_claim(const Ownership& owner, std::uint64_t pages) {
  auto& counter = owner.device ? device_pages(*owner.device) : managed_pages_;
  counter.fetch_sub(pages);
}

bool PoolBudget::reserve(Processor p, std::uint64_t pages) {
  return p.is_host() ? reserve_on_host(pages) : reserve_on_device(p, pages);
}

bool PoolBudget::reserve_on_host(std::uint64_t pages) {
  if (!engine_.at(Processor::host()).capacity.try_reserve(pages)) return false;
  host_pages_.fetch_add(pages);
  // Fails if the pools could no longer hold all promised managed memory.
  if (options_.topology.host_capacity == 0 || managed_pages_.load() <= managed_pages_max())
    return true;
  release(Processor::host(), pages);
  return false;
}

bool PoolBudget::reserve_on_device(Processor p, std::uint64_t pages) {
  if (!claim_device(p, pages)) return false;
  Reservation reservation;
  // Grows by one block at a time. Each of these steps has its own time limit.
  while (reservation.pages() < pages) {
    if (grow(reservation, p, std::min(pages, reservation.pages() + pages_per_block))) continue;
    device_pages(p).fetch_sub(pages);
    return false;
  }
  reservation.spend(pages);
  engine_.at(p).capacity.keep(pages);
  return true;
}

bool PoolBudget::grow(Reservation& reservation, Processor p, std::uint64_t pages) {
  return retry_incomplete([&] { return evictor_.reserve({p, pages}, reservation); });
}

void PoolBudget::release(Processor p, std::uint64_t pages) {
  auto& taken = p.is_host() ? host_pages_ : device_pages(p);
  taken.fetch_sub(pages);
  Capacity& capacity = engine_.at(p).capacity;
  if (p.is_host())
    capacity.give_back(pages);
  else
    capacity.give_kept_back(pages);
}

std::size_t PoolBudget::capacity_bytes(Processor p) const {
  return options_.capacity_pages(p) * page_size;
}

std::size_t PoolBudget::used_bytes(Processor p) const {
  return engine_.at(p).capacity.reserved() * page_size;
}

}  // namespace wherry::impl
