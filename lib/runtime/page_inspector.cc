#include "runtime/page_inspector.h"

#include <atomic>
#include <bit>

#include "migration/at_rest.h"
#include "os/memory/numa.h"

namespace wherry::impl {

std::optional<PageWhereabouts> PageInspector::page_whereabouts(std::uintptr_t address) {
  if (!parts_.heap.find(address)) return std::nullopt;
  const std::uint64_t page = *parts_.heap.offset_of(address) / page_size;
  const auto in_block = static_cast<unsigned>(page % pages_per_block);
  PageWhereabouts answer;
  const BlockIndex index = block_of(page);
  Block* const state = parts_.blocks.find(index);
  if (state == nullptr) return answer;
  // Not while the page is in flight: it may have left the pool that the page state names.
  lock_at_rest(parts_.engine.transfers(), index, *state, {in_block, 1});
  const LockedBlock block(index, *state, std::adopt_lock);
  answer.resident = block.state.residents(in_block);
  answer.mapped = block.state.mappers(in_block);
  answer.writable = block.state.writers(in_block);
  if (answer.resident != 0) {
    const Processor owner{std::countr_zero(answer.resident)};
    const std::byte* alias = parts_.engine.at(owner).file.alias(page);
    // Linux tells the node only of pages that this process maps: the read maps it in the alias.
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
  const std::uint64_t page = *offset / page_size;
  return PageExplanation{
      *where, parts_.effects.advice_at(page).value,
      parts_.engine.recorder().decisions().latest(
          block_of(page), static_cast<unsigned>(page % pages_per_block), decisions_max)};
}

wherryStats PageInspector::stats() const {
  wherryStats stats{};
  stats.size = sizeof stats;
  stats.processors = static_cast<std::uint64_t>(parts_.processors);
  const auto add = [](std::uint64_t& one, std::uint64_t& sum,
                      const std::atomic<std::uint64_t>& counter) {
    one = counter.load(std::memory_order_relaxed);
    sum += one;
  };
  for (int i = 0; i < parts_.processors; ++i) {
    const Counters& from = parts_.engine.at(Processor{i}).counters;
    wherryProcessorStats& to = stats.processor[i];
    add(to.faults_missing, stats.faults_missing, from.faults_missing);
    add(to.faults_minor, stats.faults_minor, from.faults_minor);
    add(to.faults_write_protect, stats.faults_write_protect, from.faults_write_protect);
    add(to.populated, stats.populated, from.populated);
    add(to.migrated_in, stats.migrated_in, from.migrated_in);
    add(to.migrated_out, stats.migrated_out, from.migrated_out);
    add(to.duplicated, stats.duplicated, from.duplicated);
    add(to.collapsed, stats.collapsed, from.collapsed);
    add(to.mapped_remotely, stats.mapped_remotely, from.mapped_remotely);
    add(to.evicted, stats.evicted, from.evicted);
    add(to.prefetched, stats.prefetched, from.prefetched);
    add(to.bytes_copied, stats.bytes_copied, from.bytes_copied);
    add(to.service_ns, stats.service_ns, from.service_ns);
    const auto sum_up = [](std::uint64_t& sum, const std::atomic<std::uint64_t>& counter) {
      sum += counter.load(std::memory_order_relaxed);
    };
    sum_up(stats.thrashing_detected, from.thrashing_detected);
    sum_up(stats.throttled, from.throttled);
    sum_up(stats.thrash_pinned, from.thrash_pinned);
    sum_up(stats.thrash_unpinned, from.thrash_unpinned);
  }
  return stats;
}

}  // namespace wherry::impl
