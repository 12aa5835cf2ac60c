// The records of all live memory that the API can be asked about, of every kind, found by any
// address in it. Lookups see a consistent state of the record. They take no lock, except in a page
// in which the program has registered several pieces of memory (a crowd).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/lock.h"
#include "base/page.h"
#include "os/memory/sparse_memory.h"
#include "pages/pointer_table.h"

namespace wherry::impl {

enum class MemoryKind : std::uint8_t {
  managed,     // managed memory, including variables: it migrates
  device,      // cuMemAlloc: memory of one device
  pooled,      // from a memory pool of one device, in stream order
  host,        // page-locked host memory for every processor
  registered,  // the program's own host memory, registered
  mapped,      // a reserved address range to which the program mapped memory
  imported,    // device memory imported from another process
};

// MemoryRecord::flags of mapped memory: it is host memory, not device memory.
inline constexpr std::uint16_t mapped_host_memory = 1;

struct MemoryRecord {
  std::uintptr_t base = 0;
  std::uintptr_t device_base = 0;  // where devices see it: at `base`, or in a range of its own
  std::uint64_t bytes = 0;
  std::uint64_t id = 0;           // never reused; assigned by insert()
  const void* context = nullptr;  // a handle of the API; null: none
  const void* pool = nullptr;     // a handle of the API; null: none
  // The mapping that contains the memory: its length in pages, and how many of them lie before
  // `base`.
  std::uint64_t mapping_pages = 0;
  std::uint16_t mapping_lead_pages = 0;
  MemoryKind kind = MemoryKind::managed;
  std::uint8_t device = 0;  // ordinal of the device that holds it or in whose context it was made
  std::uint16_t flags = 0;  // flags given to the allocating function; for `mapped`, see above
  bool sync_memops = false;
  bool variable = false;  // a module's variable: the program cannot free it

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
  // The start of the mapping that contains the memory, in the range (host's or devices') of
  // `address`.
  std::uintptr_t mapping_base(std::uintptr_t address) const {
    return round_down(start_of_range(address), page_size) - mapping_lead_pages * page_size;
  }
  // The start of the range (host's or devices') in which the address lies.
  std::uintptr_t start_of_range(std::uintptr_t address) const {
    return address - base < bytes ? base : device_base;
  }
  // Sets the mapping to the whole blocks around the allocation, which it may share with others.
  void map_in_blocks() {
    const std::uintptr_t mapping = round_down(base, block_size);
    mapping_lead_pages = static_cast<std::uint16_t>((base - mapping) / page_size);
    mapping_pages = round_up(base - mapping + bytes, block_size) / page_size;
  }
  // The address of the same byte as seen by the host or by devices. Requires: `address` lies in the
  // memory.
  std::uintptr_t host_address(std::uintptr_t address) const {
    return address - base < bytes ? address : address - device_base + base;
  }
  std::uintptr_t device_address(std::uintptr_t address) const {
    return host_address(address) - base + device_base;
  }
};

class MemoryRecords {
 public:
  // For an arena of this size: at most one record for each of its pages, within limits. Throws
  // std::system_error.
  explicit MemoryRecords(std::size_t arena_bytes);

  // Returns the record whose memory contains the address, or nullopt. Any thread.
  std::optional<MemoryRecord> find(std::uintptr_t address) const EXCLUDES(crowd_lock_);
  // Returns only the record's kind and device, which saves one lookup.
  struct Sort {
    MemoryKind kind;
    int device;
  };
  std::optional<Sort> sort_of(std::uintptr_t address) const EXCLUDES(crowd_lock_);

  // Whether a record covers any page of these bytes. Any thread; takes no lock.
  bool is_taken(std::uintptr_t base, std::size_t bytes) const;
  // Whether a record covers any of these bytes. Any thread.
  bool overlaps(std::uintptr_t base, std::size_t bytes) const EXCLUDES(crowd_lock_);

  // Inserts the record under a new id, and returns the id. Returns nullopt if another record covers
  // some of its bytes already (checked for registered memory only). Throws std::bad_alloc, and has
  // then changed nothing.
  std::optional<std::uint64_t> insert(MemoryRecord record) EXCLUDES(lock_);
  // Removes the record that begins at the address if `admits` accepts it, and returns it, or
  // nullopt if there is none, or it was refused. Of concurrent callers exactly one gets the record.
  template <typename Predicate>
  std::optional<MemoryRecord> take(std::uintptr_t base, const Predicate& admits) EXCLUDES(lock_) {
    const LockGuard guard(lock_);
    const auto record = find(base);
    if (!record || record->base != base || !admits(*record)) return std::nullopt;
    erase(*record);
    return record;
  }
  // Changes the attribute. Returns false if the record with this id no longer exists.
  bool set_sync_memops(const MemoryRecord& record, bool value) EXCLUDES(lock_);

 private:
  // Storage of one record, as readers may see it during a change. The id is then 0 or another
  // record's.
  struct alignas(64) Slot {
    std::atomic<std::uint64_t> words[8];
  };

  Slot& slot(std::uint32_t index) const { return reinterpret_cast<Slot*>(slots_.data())[index]; }
  // Copies the record. Returns false if it changed meanwhile, or the slot is empty.
  bool read(std::uint32_t index, MemoryRecord& record) const;
  // Enter the pages of these bytes in table_, and remove them.
  void enter(std::uintptr_t base, std::size_t bytes, PointerTable::Entry entry) REQUIRES(lock_);
  void leave(std::uintptr_t base, std::size_t bytes) REQUIRES(lock_);
  // Enter registered memory, whose first and last page may hold other such memory, and remove it.
  // leave_registered() also undoes a part of enter_registered().
  void enter_registered(std::uintptr_t base, std::size_t bytes, PointerTable::Entry entry)
      REQUIRES(lock_);
  void leave_registered(std::uintptr_t base, std::size_t bytes, std::uint32_t index)
      REQUIRES(lock_);
  void enter_page(std::uintptr_t page, std::size_t bytes, PointerTable::Entry entry)
      REQUIRES(lock_);
  void leave_page(std::uintptr_t page, std::uint32_t index) REQUIRES(lock_);
  void erase(const MemoryRecord& record) REQUIRES(lock_);
  // Calls f(index, record) for the records in this page, which has an entry, until it returns true.
  // Returns whether it did.
  template <typename F>
  bool any_in_page(std::uintptr_t page, PointerTable::Entry entry, const F& f) const
      EXCLUDES(crowd_lock_);
  // The slot of a record that exists.
  std::optional<std::uint32_t> index_of(const MemoryRecord& record) const REQUIRES(lock_);

  PointerTable table_;
  const std::size_t records_max_;
  SparseMemory slots_;  // committed up to `used_`
  Mutex lock_{LockOrder::records};
  std::vector<std::uint32_t> free_ GUARDED_BY(lock_);  // unused slots below `used_`
  std::uint32_t used_ GUARDED_BY(lock_) = 0;           // number of slots that were ever used
  std::uint64_t next_id_ GUARDED_BY(lock_) = 1;

  // Pages that hold, or once held, more than one piece of registered memory: for each the slots of
  // the records of these pieces. The table's entry for such a page has crowd_tag.
  mutable Mutex crowd_lock_{LockOrder::crowds};
  std::map<std::uintptr_t, std::vector<std::uint32_t>> crowds_ GUARDED_BY(crowd_lock_);
};

}  // namespace wherry::impl
