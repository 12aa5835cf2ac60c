// What the library knows of every live piece of memory that the API can be asked about, of whatever
// kind, found by any address in it. Looking is without a lock; a look sees a piece as it was at one
// moment.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "os/memory/sparse_memory.h"
#include "pages/pointer_table.h"

namespace wherry::impl {

enum class MemoryKind : std::uint8_t {
  managed,     // migrates; also variables
  device,      // of one device
  pooled,      // of one device, from a pool, in the order of a stream
  host,        // page-locked, of every processor
  registered,  // host memory of the program's own that became so
  mapped,      // an address range to which the program mapped memory
  imported,    // another process's device memory
};

// In the flags of what is mapped: it is the host's memory, and not a device's.
inline constexpr std::uint16_t mapped_host_memory = 1;

struct MemoryRecord {
  std::uintptr_t base = 0;
  std::uintptr_t device_base = 0;  // where devices have it: the same, or a range of its own
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;           // never used twice; given by insert()
  const void* context = nullptr;  // a handle of the API's; null: of none
  const void* pool = nullptr;     // likewise
  // What was mapped at once for it: from a little before it on.
  std::uint64_t mapping_pages = 0;
  std::uint16_t mapping_lead_pages = 0;
  MemoryKind kind = MemoryKind::managed;
  std::uint8_t device = 0;  // ordinal: where it is, or whose context it was made in
  std::uint16_t flags = 0;  // as the function that made it was asked; of what is mapped, see above
  bool sync_memops = false;
  bool variable = false;  // of a module: not the program's to free

  bool contains(std::uintptr_t address) const {
    return address - base < bytes || address - device_base < bytes;
  }
  bool is_for_host() const {
    return kind == MemoryKind::managed || kind == MemoryKind::host ||
           kind == MemoryKind::registered;
  }
  bool is_mapped_host_memory() const {
    return kind == MemoryKind::mapped && flags == mapped_host_memory;
  }
  // Where what was mapped at once begins, on the side of the address.
  std::uintptr_t mapping_base(std::uintptr_t address) const {
    return round_down(start_of_range(address), page_size) - mapping_lead_pages * page_size;
  }
  // Where the range begins in which the address lies.
  std::uintptr_t start_of_range(std::uintptr_t address) const {
    return address - base < bytes ? base : device_base;
  }
  // What is mapped at once lies in blocks that the allocation may share with others.
  void map_in_blocks() {
    const std::uintptr_t mapping = round_down(base, block_size);
    mapping_lead_pages = static_cast<std::uint16_t>((base - mapping) / page_size);
    mapping_pages = round_up(base - mapping + bytes, block_size) / page_size;
  }
  // The same byte as the address, which lies in it, where the host has it, or the devices.
  std::uintptr_t host_address(std::uintptr_t address) const {
    return address - base < bytes ? address : address - device_base + base;
  }
  std::uintptr_t device_address(std::uintptr_t address) const {
    return host_address(address) - base + device_base;
  }
};

class MemoryRecords {
 public:
  // For an arena of this size: a record for each of its pages, within limits. Throws
  // std::system_error.
  explicit MemoryRecords(std::size_t arena_bytes);

  // The record whose memory contains the address; nothing: there is none. Any thread, without a
  // lock.
  std::optional<MemoryRecord> find(std::uintptr_t address) const;
  // Just what kind it is, and of which device, which takes one look less.
  struct Sort {
    MemoryKind kind;
    int device;
  };
  std::optional<Sort> sort_of(std::uintptr_t address) const;

  // Whether anything is known of the pages that these bytes touch. Any thread, without a lock.
  bool is_taken(std::uintptr_t base, std::size_t bytes) const;

  // Remembers it under a new id, which it returns. Nothing: a page of it is another record's
  // already. Throws std::bad_alloc, and has then changed nothing.
  std::optional<std::uint64_t> insert(MemoryRecord record) EXCLUDES(lock_);
  // Forgets the record that begins at the address, and gives it to exactly one caller, if `admits`
  // agrees.
  template <typename Predicate>
  std::optional<MemoryRecord> take(std::uintptr_t base, const Predicate& admits) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    const auto record = find(base);
    if (!record || record->base != base || !admits(*record)) return std::nullopt;
    erase(*record);
    return record;
  }
  // False: the record of this id is gone.
  bool set_sync_memops(const MemoryRecord& record, bool value) EXCLUDES(lock_);

 private:
  // A record as others may read it while it changes: the id is 0, or another one's, then.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> words[8];
  };

  Slot& slot(std::uint32_t index) const { return reinterpret_cast<Slot*>(slots_.data())[index]; }
  // False: it changed meanwhile, or is of none.
  bool read(std::uint32_t index, MemoryRecord& record) const;
  void enter(std::uintptr_t base, std::size_t bytes, PointerTable::Entry entry) REQUIRES(lock_);
  void leave(std::uintptr_t base, std::size_t bytes) REQUIRES(lock_);
  void erase(const MemoryRecord& record) REQUIRES(lock_);
  PointerTable table_;
  const std::size_t records_max_;
  SparseMemory slots_;  // accessible up to `used_`
  Mutex lock_{LockOrder::records};
  std::vector<std::uint32_t> free_ GUARDED_BY(lock_);  // of the slots that were in use
  std::uint32_t used_ GUARDED_BY(lock_) = 0;           // slots that ever were
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;
};

}  // namespace wherry::impl
