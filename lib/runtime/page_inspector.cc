#include "runtime/page_inspector.h"

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "memory/counters.h"
#include "migration/at_rest.h"
#include "os/memory/numa.h"

namespace wherry::impl {
namespace {

// The lists of memory/counters.h contain every field of the public structs.
#define WHERRY_ONE(name) +1
constexpr std::size_t processor_counters = 0 WHERRY_PROCESSOR_COUNTERS(WHERRY_ONE);
constexpr std::size_t later_counters = 0 WHERRY_LATER_PROCESSOR_COUNTERS(WHERRY_ONE);
constexpr std::size_t summed_counters = 0 WHERRY_SUMMED_COUNTERS(WHERRY_ONE);
#undef WHERRY_ONE
static_assert(sizeof(wherryProcessorStats) == processor_counters * sizeof(std::uint64_t));
static_assert(sizeof(wherryStats) == sizeof(std::size_t) + sizeof(wherryStats::processor) +
                                         (processor_counters + 1 + summed_counters +
                                          later_counters * (1 + WHERRY_MAX_PROCESSORS)) *
                                             sizeof(std::uint64_t));

}  // namespace

std::optional<PageWhereabouts> PageInspector::page_whereabouts(std::uintptr_t address) {
  if (!parts_.heap.find(address)) return std::nullopt;
  const PageIndex page = page_at_offset(*parts_.heap.offset_of(address));
  const unsigned in_block = page_in_block(page);
  PageWhereabouts answer;
  const BlockIndex index = block_of(page);
  Block* const state = parts_.blocks.find(index);
  if (state == nullptr) return answer;
  // Waits while the page is in flight: it may have left the pool that the page state names.
  lock_at_rest(parts_.engine.transfers(), index, *state, {in_block, 1});
  const LockedBlock block(index, *state, std::adopt_lock);
  answer.resident = block.state.residents(in_block);
  // What the host's page table shows, coherent devices see too.
  const auto with_coherent = [&](ProcessorMask tables) {
    return tables | ((tables & Processor::host().bit()) != 0 ? parts_.engine.coherent() : 0);
  };
  answer.mapped = with_coherent(block.state.mappers(in_block));
  answer.writable = with_coherent(block.state.writers(in_block));
  if (answer.resident != 0) {
    const Processor owner{std::countr_zero(answer.resident)};
    const std::byte* alias = parts_.engine.at(owner).file.alias(page);
    // Linux tells the node only of pages that this process maps: this read maps it in the alias.
    [[maybe_unused]] const volatile std::byte looked =
        *const_cast<const volatile std::byte*>(alias);
    answer.node = node_of(alias);
  }
  return answer;
}

std::optional<PageExplanation> PageInspector::explain(std::uintptr_t address,
                                                      std::size_t decisions_max) {
  const auto where = page_whereabouts(address);
  const auto offset = parts_.heap.offset_of(address);
  if (!where || !offset) return std::nullopt;
  const PageIndex page = page_at_offset(*offset);
  return PageExplanation{*where, parts_.effects.advice_at(page).value,
                         parts_.engine.recorder().decisions().latest(
                             block_of(page), page_in_block(page), decisions_max)};
}

wherryStats PageInspector::stats() const {
  wherryStats stats{};
  stats.size = sizeof stats;
  stats.processors = static_cast<std::uint64_t>(parts_.processors);
  for (int i = 0; i < parts_.processors; ++i) {
    const Counters& from = parts_.engine.at(Processor{i}).counters;
    wherryProcessorStats& to = stats.processor[i];
#define WHERRY_READ(name)                              \
  to.name = from.name.load(std::memory_order_relaxed); \
  stats.name += to.name;
#define WHERRY_READ_LATER(name)                                          \
  stats.processor_##name[i] = from.name.load(std::memory_order_relaxed); \
  stats.name += stats.processor_##name[i];
#define WHERRY_SUM_UP(name) stats.name += from.name.load(std::memory_order_relaxed);
    WHERRY_PROCESSOR_COUNTERS(WHERRY_READ)
    WHERRY_LATER_PROCESSOR_COUNTERS(WHERRY_READ_LATER)
    WHERRY_SUMMED_COUNTERS(WHERRY_SUM_UP)
#undef WHERRY_SUM_UP
#undef WHERRY_READ_LATER
#undef WHERRY_READ
  }
  return stats;
}

}  // namespace wherry::impl
