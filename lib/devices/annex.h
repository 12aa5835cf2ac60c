// The annex: the second range of addresses that is the same in every process, for memory that never
// moves. Nobody can touch it, but where part of a file is mapped: shared, the same pages for every
// processor, and without a trap.
//
// A device that is started again gets what it had. Who maps a file where something is mapped
// replaces it. Any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/processor.h"
#include "devices/device_process.h"
#include "memory/file_part.h"
#include "os/files/fd.h"
#include "os/memory/mapping.h"
#include "pages/address_space.h"

namespace wherry::impl {

class Annex {
 public:
  // Part of a file, and where in the annex it is to be seen: whole pages.
  struct Window : FilePart {
    Access access = Access::write;
  };

  // Reserves the addresses. Throws std::system_error.
  Annex(std::size_t bytes, int devices);

  std::uintptr_t base() const { return range_.address(); }
  std::size_t size() const { return range_.size(); }
  bool contains(std::uintptr_t address) const { return address - base() < size(); }
  bool overlaps(AddressRange range) const {
    return range.start < base() + size() && range.end > base();
  }
  ProcessorMask all_devices() const { return all_devices_; }

  // Addresses that nobody else has, aligned as AddressSpace says. Nothing: there is no such gap.
  std::optional<std::uintptr_t> reserve(std::size_t bytes) {
    const auto place = addresses_.allocate(bytes, 0);
    return place ? std::optional(base() + place->offset) : std::nullopt;
  }
  // The same from an address on, if all of that is free; or from a multiple of `alignment` on.
  // Requires: multiples of 2 MiB, the alignment a power of two.
  bool reserve_at(std::uintptr_t address, std::size_t bytes) {
    return contains(address) && addresses_.allocate_at(address - base(), bytes).has_value();
  }
  std::optional<std::uintptr_t> reserve_aligned(std::size_t bytes, std::size_t alignment) {
    const auto place = addresses_.allocate_aligned(bytes, alignment, base());
    return place ? std::optional(base() + place->offset) : std::nullopt;
  }
  // Requires: nothing is mapped there at any processor.
  void release(std::uintptr_t address);

  // Shows the file to these processors, or hides it from them. An errno: show() has changed
  // nothing; hide() has not reached all of them, and can be tried again. A device whose process has
  // ended is as good as one that answered; one that does not answer within the limit is ended.
  [[nodiscard]] int show(const Window& window, ProcessorMask processors) EXCLUDES(lock_);
  [[nodiscard]] int hide(std::uintptr_t address, std::size_t bytes, ProcessorMask processors)
      EXCLUDES(lock_);

  // Where the bytes are, of which there are some, by address; nothing: some are not shown to the
  // processor, or for less than this access. Throws std::bad_alloc.
  std::optional<std::vector<FilePart>> locate(AddressRange bytes, Processor p, Access wanted)
      EXCLUDES(lock_);

  // The process has just been started: from now on it sees what it should. Throws
  // std::system_error.
  void attach(int device, std::shared_ptr<DeviceProcess> process) EXCLUDES(lock_);

 private:
  struct Part {
    std::shared_ptr<DeviceProcess> process;    // of devices, once there is one
    std::map<std::uintptr_t, Window> windows;  // by address; they do not overlap
  };

  Part& part(Processor p) REQUIRES(lock_) { return parts_[static_cast<std::size_t>(p.index)]; }
  int map(Processor p, const Window& window) REQUIRES(lock_);
  int unmap(Processor p, std::uintptr_t address, std::size_t bytes) REQUIRES(lock_);
  // The window was mapped, and is not to be.
  void undo(Processor p, const Window& window) REQUIRES(lock_);

  const Mapping range_;
  const ProcessorMask all_devices_;
  AddressSpace addresses_;
  Mutex lock_{LockOrder::annex};
  std::array<Part, max_processors> parts_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
