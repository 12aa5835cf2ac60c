// What the migration engine needs of one processor: its mapper, its pool, its capacity, its
// counters.
#pragma once

#include <cstdint>
#include <optional>

#include "base/processor.h"
#include "memory/capacity.h"
#include "memory/counters.h"
#include "memory/pool.h"
#include "memory/status_memory.h"
#include "pages/block_directory.h"
#include "trap/mapper.h"

namespace wherry::impl {

struct ProcessorMemory {
  // `page_table`: the processor whose page table is used; nullopt: its own. `shown`: where the
  // counters are; null: in this object, where no other process sees them.
  ProcessorMemory(Processor processor, Mapper& processor_mapper, PoolFile& pool_file,
                  std::uint64_t capacity_pages, BlockDirectory& all_blocks,
                  std::optional<Processor> page_table = std::nullopt,
                  ProcessorStatus* shown = nullptr)
      : id(processor),
        table(page_table.value_or(processor)),
        mapper(processor_mapper),
        file(pool_file),
        capacity(capacity_pages, shown == nullptr ? nullptr : &shown->reserved_pages),
        blocks(all_blocks),
        counters(shown == nullptr ? own_counters : shown->counters) {}

  const Processor id;
  // The processor whose page table this one's threads use: itself, or the host for a coherent
  // device.
  const Processor table;
  Mapper& mapper;
  PoolFile& file;
  Capacity capacity;
  BlockDirectory& blocks;  // of all processors
  alignas(64) Counters own_counters;
  Counters& counters;
};

}  // namespace wherry::impl
