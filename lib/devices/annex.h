// The annex: a second range of addresses that is the same in every process, for memory that never
// moves. An address is accessible only where a file is mapped. These mappings are shared: every
// processor sees the same pages, and accesses do not fault.
//
// A restarted device gets the mappings that its predecessor had. Mapping a file over an existing
// mapping replaces it. Any thread may call.
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
#include "memory/file_mapping.h"
#include "os/files/fd.h"
#include "os/memory/mapping.h"
#include "pages/address_space.h"

namespace wherry::impl {

class Annex {
 public:
  // Whole pages of a file, and where in the annex they are mapped.
  struct Window : FileMapping {
    Access access = Access::write;
    InChildren children = InChildren::absent;  // whether children of the host map it
  };

  // Reserves the addresses. `coherent`: devices that use the host's page table. Throws
  // std::system_error.
  Annex(std::size_t bytes, int devices, ProcessorMask coherent = 0);

  std::uintptr_t base() const { return range_.address(); }
  std::size_t size() const { return range_.size(); }
  AddressRange range() const { return {base(), base() + size()}; }
  bool contains(std::uintptr_t address) const { return address - base() < size(); }
  bool overlaps(AddressRange range) const {
    return range.start < base() + size() && range.end > base();
  }
  ProcessorMask all_devices() const { return all_devices_; }

  // Reserves addresses, aligned to 64 KiB or 2 MiB (pages/address_space.h). Returns nullopt if no
  // gap is large enough.
  std::optional<std::uintptr_t> reserve(std::size_t bytes) {
    const auto place = addresses_.allocate(bytes, 0);
    return place ? std::optional(base() + place->offset) : std::nullopt;
  }
  // Reserve the range at `address`, if all of it is free, or a range at a multiple of `alignment`.
  // Requires: multiples of 2 MiB; the alignment is a power of two.
  bool reserve_at(std::uintptr_t address, std::size_t bytes) {
    return contains(address) && addresses_.allocate_at(address - base(), bytes).has_value();
  }
  std::optional<std::uintptr_t> reserve_aligned(std::size_t bytes, std::size_t alignment) {
    const auto place = addresses_.allocate_aligned(bytes, alignment, base());
    return place ? std::optional(base() + place->offset) : std::nullopt;
  }
  // Requires: no processor has anything mapped there.
  void release(std::uintptr_t address);

  // Maps the file at these processors, or unmaps it. Return 0 or an errno. If show() fails, it has
  // changed nothing. If hide() fails, some processors still have the mapping, and the caller can
  // try again. A device whose process has ended counts as successful. A device that does not answer
  // in time is ended.
  [[nodiscard]] int show(const Window& window, ProcessorMask processors) EXCLUDES(lock_);
  [[nodiscard]] int hide(std::uintptr_t address, std::size_t bytes, ProcessorMask processors)
      EXCLUDES(lock_);

  // The mappings that the processor has at `bytes` (not empty), by address. Returns nullopt
  // if some bytes are not mapped at the processor, or with less than this access. Throws
  // std::bad_alloc.
  std::optional<std::vector<FileMapping>> locate(AddressRange bytes, Processor p, Access wanted)
      EXCLUDES(lock_);

  // Maps everything that the device should see in its process, which has just been started. Throws
  // std::system_error.
  void attach(int device, std::shared_ptr<DeviceProcess> process) EXCLUDES(lock_);

 private:
  struct ProcessorState {
    // null for the host, for a coherent device, and for a device that has not started
    std::shared_ptr<DeviceProcess> process;
    std::map<std::uintptr_t, Window> windows;  // by address; they do not overlap
  };

  ProcessorState& state(Processor p) REQUIRES(lock_) {
    return states_[static_cast<std::size_t>(p.index)];
  }
  // Whether p's threads use the host's page table.
  bool is_in_host(Processor p) const { return p.is_host() || (coherent_ & p.bit()) != 0; }
  // Whether another processor that uses the host's page table has a mapping there.
  bool is_used_in_host(Processor except, std::uintptr_t address) REQUIRES(lock_);
  int map(Processor p, const Window& window) REQUIRES(lock_);
  int unmap(Processor p, std::uintptr_t address, std::size_t bytes) REQUIRES(lock_);
  // Restores what the processor had before map() of this window.
  void undo(Processor p, const Window& window) REQUIRES(lock_);

  const Mapping range_;
  const ProcessorMask all_devices_;
  const ProcessorMask coherent_;
  AddressSpace addresses_;
  Mutex lock_{LockOrder::annex};
  std::array<ProcessorState, max_processors> states_ GUARDED_BY(lock_);
};

}  // namespace wherry::impl
