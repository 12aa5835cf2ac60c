// What the migration engine needs of one processor: its mapper, its pool, its capacity, its
// counters.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/processor.h"
#include "memory/capacity.h"
#include "memory/pool.h"
#include "pages/block_directory.h"
#include "trap/mapper.h"

namespace wherry::impl {

// Counters since start, in pages unless the name says otherwise. Relaxed: they order nothing. Each
// is raised before the access that caused the event returns.
struct Counters {
  std::atomic<std::uint64_t> faults_missing{0};
  std::atomic<std::uint64_t> faults_minor{0};
  std::atomic<std::uint64_t> faults_write_protect{0};
  std::atomic<std::uint64_t> populated{0};
  std::atomic<std::uint64_t> migrated_in{0};
  std::atomic<std::uint64_t> migrated_out{0};
  std::atomic<std::uint64_t> duplicated{0};
  std::atomic<std::uint64_t> collapsed{0};
  std::atomic<std::uint64_t> mapped_remotely{0};
  std::atomic<std::uint64_t> evicted{0};
  std::atomic<std::uint64_t> prefetched{0};
  std::atomic<std::uint64_t> bytes_copied{0};
  std::atomic<std::uint64_t> service_ns{0};
  // At the processor to which the page moved.
  std::atomic<std::uint64_t> thrashing_detected{0};
  // At the processor that has to wait.
  std::atomic<std::uint64_t> throttled{0};
  // Pages, at the processor at which they are resident.
  std::atomic<std::uint64_t> thrash_pinned{0};
  std::atomic<std::uint64_t> thrash_unpinned{0};
  // Pages that the pool held although the page state says that they are not resident. Must stay 0.
  std::atomic<std::uint64_t> false_residency{0};
};

inline void count(std::atomic<std::uint64_t>& counter, std::uint64_t amount = 1) {
  counter.fetch_add(amount, std::memory_order_relaxed);
}

struct ProcessorMemory {
  ProcessorMemory(Processor processor, Mapper& processor_mapper, PoolFile& pool_file,
                  std::uint64_t capacity_pages, BlockDirectory& all_blocks)
      : id(processor),
        mapper(processor_mapper),
        file(pool_file),
        capacity(capacity_pages),
        blocks(all_blocks) {}

  const Processor id;
  Mapper& mapper;
  PoolFile& file;
  Capacity capacity;
  BlockDirectory& blocks;  // of all processors
  alignas(64) Counters counters;
};

}  // namespace wherry::impl
