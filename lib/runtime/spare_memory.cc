#include "runtime/spare_memory.h"

#include <algorithm>
#include <iterator>

namespace wherry::impl {

std::vector<std::uintptr_t> SpareMemory::keep(int device, std::uint64_t pages,
                                              std::uintptr_t address) {
  const std::uint64_t limit = limits_[static_cast<std::size_t>(device)];
  if (pages > limit) return {address};
  const LockGuard guard(lock_);
  OfDevice& spare = of(device);
  std::vector<std::uintptr_t> gone;
  gone.reserve(spare.pieces.size());
  spare.pieces.push_back({pages, address});
  spare.pages += pages;
  while (spare.pages > limit || spare.pieces.size() > pieces_max) {
    const Piece oldest = spare.pieces.front();
    spare.pieces.pop_front();
    spare.pages -= oldest.pages;
    gone.push_back(oldest.address);
  }
  return gone;
}

std::optional<std::uintptr_t> SpareMemory::take(int device, std::uint64_t pages) {
  const LockGuard guard(lock_);
  OfDevice& spare = of(device);
  const auto found =
      std::ranges::find(spare.pieces.rbegin(), spare.pieces.rend(), pages, &Piece::pages);
  if (found == spare.pieces.rend()) return std::nullopt;
  const std::uintptr_t address = found->address;
  spare.pieces.erase(std::next(found).base());
  spare.pages -= pages;
  return address;
}

std::vector<std::uintptr_t> SpareMemory::take_all(int device) {
  const LockGuard guard(lock_);
  OfDevice& spare = of(device);
  std::vector<std::uintptr_t> all;
  all.reserve(spare.pieces.size());
  for (const Piece& piece : spare.pieces) all.push_back(piece.address);
  spare = {};
  return all;
}

std::uint64_t SpareMemory::pages(int device) const {
  const LockGuard guard(lock_);
  return devices_[static_cast<std::size_t>(device)].pages;
}

}  // namespace wherry::impl
