// Host memory, which all devices map, too: pages of one file on the host's nodes. It is allocated
// in the annex, or adopted from the program. A page's offset in the file is its device address
// minus the annex's base.
//
// Its pages exist until the memory is freed, so no access to them faults or fails.
//
// Children that the program forks share allocated memory with it, as with NVIDIA's driver. They
// keep their mappings when the program frees the memory. So in a program that has forked, freed
// memory is allocated again only when there is no other, because a child would see the new
// contents. Adopted memory is copied for children (memory/adopted_ranges.h).
//
// Any thread may call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lock.h"
#include "devices/annex.h"
#include "memory/adopted_ranges.h"
#include "os/files/memory_file.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {

struct HostRange {
  std::uintptr_t base = 0;
  std::uintptr_t device_base = 0;
  std::size_t bytes = 0;
};

class HostMemory {
 public:
  // `nodes`: the nodes that the file prefers; if empty, Linux chooses. Throws std::system_error.
  HostMemory(Annex& annex, std::span<const int> nodes, std::optional<UffdAccess> access);

  // To be called before the program forks.
  void note_fork() { has_forked_.store(true, std::memory_order_relaxed); }

  // Allocates pages of zeros. `apart`: the host and the devices have them at different addresses,
  // and neither side can access the other's addresses. Returns nullopt if there is no space.
  std::optional<HostRange> allocate(std::size_t bytes, bool apart);
  // Unmaps the range in every process and frees its pages. Returns false if a process could not
  // unmap it. That process may still map it, so the addresses are not used again.
  bool free(const HostRange& range);

  // A caller that registers or unregisters memory holds this lock from its checks to the end.
  Mutex& registering() WHERRY_TSA(lock_returned(registering_)) { return registering_; }
  // Reserves device addresses for this memory of the program. Devices do not map it yet. Returns
  // nullopt if no addresses are free.
  std::optional<HostRange> find_place(AddressRange bytes);
  // Makes this memory of the program host memory, at the device addresses of find_place().
  // `read_only`: devices may only read. If that fails, the device addresses are free again.
  AdoptedRanges::Verdict adopt(const HostRange& range, bool read_only) REQUIRES(registering_);
  // Unmaps the memory in the devices, and makes it the program's private memory again, except pages
  // that it shares with other registered memory. Returns false if Linux refuses that, or another
  // thread was still in fork() when the time limit passed.
  bool give_back(const HostRange& range) REQUIRES(registering_);

  AdoptedRanges& adopted() { return adopted_; }

 private:
  std::optional<HostRange> find_free(std::size_t bytes, bool apart);
  std::optional<HostRange> reserve(std::size_t bytes, bool apart);
  void release(const HostRange& range);
  // Lets freed memory that children may still map be allocated again. Returns whether there was
  // any.
  bool release_left();
  Annex::Window window_at(std::uintptr_t address, const HostRange& range, Access access) const;
  // The places at which devices see the pieces of adopted memory.
  std::vector<Annex::Window> windows_of(const HostRange& range, Access access) const;
  int hide(std::span<const Annex::Window> windows);
  // Releases device addresses that are not in use any more.
  void release(const Annex::Window& window) REQUIRES(registering_);

  Annex& annex_;
  MemoryFile file_;
  const std::shared_ptr<const Fd> shown_;
  AdoptedRanges adopted_;
  Mutex registering_{LockOrder::registering};
  std::atomic<bool> has_forked_ = false;
  Mutex leaving_{LockOrder::leftovers};
  std::vector<HostRange> left_ GUARDED_BY(leaving_);  // freed; children may still map it
  // Device addresses of memory that was given back, but of which other registered memory still uses
  // a page of the file. They stay reserved, because a page's offset follows from its first device
  // address.
  std::vector<Annex::Window> kept_ GUARDED_BY(registering_);
};

}  // namespace wherry::impl
