// Memory of the host that every device sees, too: one file on the host's nodes, mapped by
// everybody. Allocated in the annex, or adopted from the program. A page's place in the file is
// where devices have it, counted from the annex's base.
//
// Its pages exist from the beginning to the end: no touch of it faults, and none can fail. Any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

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
  // `nodes`: of the host; empty: nothing is to be chosen. Throws std::system_error.
  HostMemory(Annex& annex, std::span<const int> nodes, std::optional<UffdAccess> access);

  // Pages of zeros. `apart`: where devices have them the host does not, and the other way round.
  // Nothing: there is no room.
  std::optional<HostRange> allocate(std::size_t bytes, bool apart);
  // Nobody has it any more, then its pages are gone. False: a device does not answer; it may still
  // have it, and nobody else will get the addresses.
  bool free(const HostRange& range);

  // Held by who registers memory or ends that, from the look whether he may to the end.
  Mutex& registering() WHERRY_TSA(lock_returned(registering_)) { return registering_; }
  // Where devices will have these bytes of the program's: not yet. Nothing: there is no gap.
  std::optional<HostRange> find_place(AddressRange bytes);
  // `read_only`: for devices. Unless they are adopted, the place is free again.
  AdoptedRanges::Verdict adopt(const HostRange& range, bool read_only) REQUIRES(registering_);
  // Devices have it no more, and the program's memory is as before. False: the kernel refuses that.
  bool give_back(const HostRange& range) REQUIRES(registering_);

  AdoptedRanges& adopted() { return adopted_; }

 private:
  Annex::Window window_at(std::uintptr_t address, const HostRange& range, Access access) const;

  Annex& annex_;
  MemoryFile file_;
  const std::shared_ptr<const Fd> shown_;
  AdoptedRanges adopted_;
  Mutex registering_{LockOrder::registering};
};

}  // namespace wherry::impl
