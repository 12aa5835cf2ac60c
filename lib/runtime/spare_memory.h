// Devices' own memory that the program has freed and that keeps its pages: the next allocation of
// as many pages gets it without the creation of pages. This is only a list of addresses:
// ManagedHeap decides what it keeps, and frees what it drops. Any thread may call.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/processor.h"

namespace wherry::impl {

class SpareMemory {
 public:
  // The most pages that each device's pool keeps; by device.
  using Limits = std::array<std::uint64_t, max_devices>;
  explicit SpareMemory(const Limits& limits) : limits_(limits) {}

  // Keeps memory of so many pages. Returns what is dropped for it: the oldest, or the memory itself
  // if it exceeds the device's limit. Throws std::bad_alloc, and has then changed nothing.
  std::vector<std::uintptr_t> keep(int device, std::uint64_t pages, std::uintptr_t address)
      EXCLUDES(lock_);
  // Removes and returns the newest memory of exactly so many pages; nullopt if there is none.
  std::optional<std::uintptr_t> take(int device, std::uint64_t pages) EXCLUDES(lock_);
  // Removes and returns all memory of the device.
  std::vector<std::uintptr_t> take_all(int device) EXCLUDES(lock_);
  // How many pages of the device's pool are kept.
  std::uint64_t pages(int device) const EXCLUDES(lock_);

 private:
  struct Piece {
    std::uint64_t pages = 0;
    std::uintptr_t address = 0;
  };
  struct OfDevice {
    std::deque<Piece> pieces;  // the oldest first
    std::uint64_t pages = 0;   // of all pieces
  };
  // For each device. Bounds the time of a search.
  static constexpr std::size_t pieces_max = 256;

  OfDevice& of(int device) REQUIRES(lock_) { return devices_[static_cast<std::size_t>(device)]; }

  const Limits limits_;
  mutable Mutex lock_{LockOrder::spare_memory};
  std::array<OfDevice, max_devices> devices_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
