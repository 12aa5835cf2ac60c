// Virtual memory that the program manages itself: addresses that it reserved, memory that it
// created or imported, which memory is mapped at which address, and which processors may access it.
// All addresses lie in the annex: every processor that maps such memory has it at the same address,
// and no access traps. Any thread.
#pragma once

#include <wherry/cuda.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/lock.h"
#include "objects/physical_memory.h"
#include "os/memory/address_map.h"
#include "os/memory/mapping.h"
#include "runtime/runtime.h"

namespace wherry::impl {

class VirtualMemory {
 public:
  using Handle = CUmemGenericAllocationHandle;

  explicit VirtualMemory(Runtime& runtime) : runtime_(runtime) {}

  // ---- addresses

  // Reserves addresses: from `hint` on, if all of that is free; otherwise elsewhere, on a multiple
  // of `alignment`, a power of two. Returns nullopt if there is no space. Requires: `bytes` is
  // whole blocks (2 MiB). Throws std::bad_alloc.
  std::optional<std::uintptr_t> reserve(std::size_t bytes, std::size_t alignment,
                                        std::uintptr_t hint) EXCLUDES(lock_);
  // Returns false if the range is not exactly one reservation, or if memory is mapped in it.
  bool release(std::uintptr_t address, std::size_t bytes) EXCLUDES(lock_);

  // ---- memory

  // Adds the memory and returns its handle, with one reference. Throws std::bad_alloc.
  Handle add(PhysicalMemory memory) EXCLUDES(lock_);
  // Returns the memory of this handle, or nullopt if there is none.
  std::optional<PhysicalMemory> find(Handle handle) const EXCLUDES(lock_);
  // Returns the descriptor of a file that this process has created and still uses, or null if there
  // is no such file.
  std::shared_ptr<const Fd> find_own(const FileIdentity& file) const EXCLUDES(lock_);
  // Removes one reference; mappings stay. Returns false if the handle has none.
  bool drop(Handle handle) EXCLUDES(lock_);
  // Adds one reference to the memory that is mapped at the address, also if it had none left.
  // Returns nullopt if no memory is mapped there. Throws std::bad_alloc.
  std::optional<Handle> retain(std::uintptr_t address) EXCLUDES(lock_);

  // ---- mappings, each with the errors of its C function

  // Maps all of the memory from the address on. No processor has access yet.
  CUresult map(std::uintptr_t address, Handle handle) EXCLUDES(lock_);
  // Unmaps all memory in the range. Requires: no work that may use it is running or queued.
  CUresult unmap(AddressRange place) EXCLUDES(lock_);
  struct Grant {
    Processor processor;
    Access access = Access::none;
    bool is_for_nodes = false;  // the program named one of the host's nodes
  };
  // Whether a device can access some of this range now, and could not if each processor had only
  // the access `left`.
  using Accesses = std::array<Access, max_processors>;
  bool takes_away(AddressRange place, const Accesses& left) const EXCLUDES(lock_);
  // If several grants name a processor, the last one counts. Requires, if it takes access away: no
  // work that may use the memory is running or queued.
  CUresult set_access(AddressRange place, std::span<const Grant> grants) EXCLUDES(lock_);

  // ---- what there is

  struct Mapped {
    AddressRange place;
    Handle handle = 0;
    PhysicalMemory memory;
    std::array<Access, max_processors> access{};

    Access access_of(Processor p) const { return access[static_cast<std::size_t>(p.index)]; }
  };
  // Returns the memory that is mapped at the address, or nullopt if none is.
  std::optional<Mapped> mapped_at(std::uintptr_t address) const EXCLUDES(lock_);
  // Returns the reservation that contains the address, or nullopt if there is none.
  std::optional<AddressRange> reserved_around(std::uintptr_t address) const EXCLUDES(lock_);

 private:
  struct Memory {
    PhysicalMemory physical;
    Handle handle = 0;
    unsigned references = 0;  // mappings do not count
  };
  struct MappedRange {
    std::shared_ptr<Memory> memory;
    std::array<Access, max_processors> access{};

    std::size_t bytes() const { return memory->physical.bytes; }
    Access& access_of(Processor p) { return access[static_cast<std::size_t>(p.index)]; }
  };
  using MappedRanges = std::map<std::uintptr_t, MappedRange>;  // by address; they do not overlap

  // The mapped ranges that lie in `place`; nullopt if `place` contains only a part of one.
  std::optional<std::vector<MappedRanges::iterator>> mapped_in(AddressRange place) REQUIRES(lock_);
  // The mapped ranges that cover `place` together, without gaps. Empty if they do not cover exactly
  // `place`.
  std::vector<MappedRanges::iterator> mapped_exactly(AddressRange place) REQUIRES(lock_);
  MappedRanges::const_iterator mapped_around(std::uintptr_t address) const REQUIRES(lock_);
  const std::pair<const std::uintptr_t, std::size_t>* reservation_around(
      std::uintptr_t address) const REQUIRES(lock_);
  bool is_mapped(AddressRange place) const REQUIRES(lock_);
  std::optional<std::uintptr_t> find_place(std::size_t bytes, std::size_t alignment,
                                           std::uintptr_t hint);
  void remember(AddressRange place, const Memory& memory) REQUIRES(lock_);
  // Changes the processor's access to the range. Returns 0 or an errno.
  int give(MappedRanges::iterator range, Processor p, Access access) REQUIRES(lock_);

  Runtime& runtime_;
  mutable Mutex lock_{LockOrder::virtual_memory};  // held while processors map and unmap
  std::map<std::uintptr_t, std::size_t> reserved_ GUARDED_BY(lock_);  // address -> bytes
  MappedRanges mapped_ GUARDED_BY(lock_);
  std::map<Handle, std::shared_ptr<Memory>> memories_ GUARDED_BY(lock_);  // those with references
  Handle next_ GUARDED_BY(lock_) = 1;                                     // no handle is 0
};

}  // namespace wherry::impl
