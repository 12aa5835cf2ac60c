#include "trap/protection_mapper.h"

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "base/check.h"

namespace wherry::impl {
namespace {

// A change can split one mapping in three.
constexpr std::uint64_t mappings_per_change = 2;

}  // namespace

void ProtectionMapper::attach(std::shared_ptr<Protector> protector) {
  const WriteGuard guard(lock_);
  protector_ = std::move(protector);
  mappings_ = 0;
  shortage_ = none;
  // A new process's view forbids huge pages everywhere.
  const std::size_t words = huge_blocks_.size() / sizeof(std::uint64_t);
  std::fill_n(reinterpret_cast<std::uint64_t*>(huge_blocks_.data()), words, std::uint64_t{0});
}

void ProtectionMapper::detach() {
  attach(nullptr);
}

unsigned ProtectionMapper::grain() const {
  switch (shortage_.load(std::memory_order_relaxed)) {
    case none:
      return 1;
    case regions:
      return pages_per_region;
    default:
      return pages_per_block;
  }
}

void ProtectionMapper::count_others(std::uint64_t changes) {
  // Before the first count there is nothing to add to.
  if (mappings_.load(std::memory_order_relaxed) != 0)
    mappings_.fetch_add(changes * mappings_per_change, std::memory_order_relaxed);
}

int ProtectionMapper::change_in_few_mappings(Protector& protector, PageSpan span, Access access,
                                             HugeEntries entries, FaultSlot* waiter) {
  const PageSpan wider[] = {aligned_around(span, pages_per_region),
                            aligned_around(span, pages_per_block), arena_};
  int error = ENOMEM;
  for (unsigned step = shortage_.load(std::memory_order_relaxed); step < std::size(wider); ++step) {
    shortage_.store(std::min<unsigned>(step + 1, blocks), std::memory_order_relaxed);
    // Mappings do not merge if only some of them permit huge entries.
    const HugeEntries around = wider[step].count == arena_.count ? HugeEntries::forbidden : entries;
    if (protector.protect(wider[step], Access::none, around, waiter) == 0 && access == Access::none)
      return 0;
    error = protector.protect(span, access, entries, waiter);
    if (error != ENOMEM) return error;
    // A part of the change may have been made. It is undone, because pages that are not reported as
    // mapped must not be accessible.
    (void)protector.protect(span, Access::none, entries, waiter);
  }
  return error;
}

void ProtectionMapper::mind_budget(Protector& protector, FaultSlot* waiter) {
  if (budget_ == 0) return;
  const std::uint64_t known = mappings_.load(std::memory_order_relaxed);
  if (known != 0 && known + mappings_per_change <= budget_) {
    mappings_.fetch_add(mappings_per_change, std::memory_order_relaxed);
    return;
  }
  // The estimate is too high, because most changes split no mapping, or merge some. Counting takes
  // Linux a while, so it is done only here. The shortage is read first: of several threads that
  // count at the same time only one raises it.
  const unsigned shortage = shortage_.load(std::memory_order_relaxed);
  std::uint64_t counted = protector.count_mappings();
  if (counted > budget_ - budget_ / 4) {
    shortage_.store(std::min<unsigned>(shortage + 1, blocks), std::memory_order_relaxed);
    if (protector.protect(arena_, Access::none, HugeEntries::forbidden, waiter) == 0)
      counted = protector.count_mappings();
  } else if (counted <= budget_ / 2 && shortage != none) {
    shortage_.store(shortage - 1, std::memory_order_relaxed);
  }
  // The bound permits some changes before the next count, however many mappings the program itself
  // has: all pages of one instruction must become accessible before access is removed again.
  mappings_.store(std::clamp<std::uint64_t>(counted, 1, budget_ - budget_ / 4),
                  std::memory_order_relaxed);
}

OpResult ProtectionMapper::change(PageSpan span, Access access, HugeEntries entries,
                                  FaultSlot* waiter) {
  const ReadGuard guard(lock_);
  if (!protector_) return {OpStatus::process_gone, 0};
  mind_budget(*protector_, waiter);
  int error = protector_->protect(span, access, entries, waiter);
  // If Linux refuses a huge entry, the caller maps the block in another way.
  if (error == ENOMEM && entries != HugeEntries::entered)
    error = change_in_few_mappings(*protector_, span, access, entries, waiter);
  switch (error) {
    case 0:
      return {OpStatus::ok, span.bytes()};
    case ESRCH:
      return {OpStatus::process_gone, 0};
    case ENOMEM:
      return {OpStatus::no_memory, 0};
    case EBUSY:
      return {OpStatus::occupied, 0};
  }
  WHERRY_FAIL("changing access: unexpected errno {}", error);
}

template <typename Fill>
OpResult ProtectionMapper::fill_and_enter(PageSpan span, Access access, FaultSlot* waiter,
                                          Fill fill) {
  {
    const ReadGuard guard(lock_);
    if (!protector_) return {OpStatus::process_gone, 0};
  }
  const OpResult filled = fill();
  // A page to which access cannot be given now faults again.
  if (filled.bytes != 0)
    (void)change({span.first, filled.bytes / page_size}, access, HugeEntries::unchanged, waiter);
  return filled;
}

std::atomic_ref<std::uint64_t> ProtectionMapper::huge_word_of(BlockIndex block) const {
  auto* const words = reinterpret_cast<std::uint64_t*>(huge_blocks_.data());
  return std::atomic_ref(words[block.value / 64]);
}

// Linux removes a huge entry as a whole in any case. With access to the rest of the block, the
// process would take a fault for each page or region that it uses. Without access, the next fault
// in the block enters all that remains of it.
OpResult ProtectionMapper::close(PageSpan span, FaultSlot* waiter) {
  const BlockIndex block = block_of(span.first);
  const auto word = huge_word_of(block);
  const std::uint64_t bit = huge_bit_of(block);
  if ((word.load(std::memory_order_relaxed) & bit) == 0)
    return change(span, Access::none, HugeEntries::unchanged, waiter);
  const OpResult closed = change(block_span(block), Access::none, HugeEntries::forbidden, waiter);
  if (!closed) return closed;
  word.fetch_and(~bit, std::memory_order_relaxed);
  return {OpStatus::ok, span.bytes()};
}

OpResult ProtectionMapper::unmap(PageSpan span, FaultSlot* waiter) {
  const OpResult result = close(span, waiter);
  if (result.status != OpStatus::no_memory) return result;
  const ReadGuard guard(lock_);
  const bool is_gone = protector_ == nullptr || protector_->end_process();
  return {is_gone ? OpStatus::process_gone : OpStatus::no_memory, 0};
}

OpResult ProtectionMapper::copy_protected(PageSpan span, const std::byte* source,
                                          FaultSlot* waiter) {
  return fill_and_enter(span, Access::read, waiter, [&] { return pool_.fill(span, source); });
}

OpResult ProtectionMapper::zero(PageSpan span, FaultSlot* waiter) {
  return fill_and_enter(span, Access::write, waiter, [&] { return pool_.fill_zero(span); });
}

OpResult ProtectionMapper::map_resident(PageSpan span, bool write_protected, FaultSlot* waiter) {
  return change(span, write_protected ? Access::read : Access::write, HugeEntries::unchanged,
                waiter);
}

OpResult ProtectionMapper::map_whole(PageSpan block, FaultSlot* waiter) {
  const BlockIndex index = block_of(block.first);
  const auto word = huge_word_of(index);
  const std::uint64_t bit = huge_bit_of(index);
  word.fetch_or(bit, std::memory_order_relaxed);
  const OpResult entered = change(block, Access::write, HugeEntries::entered, waiter);
  if (entered.status == OpStatus::occupied) word.fetch_and(~bit, std::memory_order_relaxed);
  return entered;
}

OpResult ProtectionMapper::write_protect(PageSpan span, FaultSlot* waiter) {
  return change(span, Access::read, HugeEntries::unchanged, waiter);
}

OpResult ProtectionMapper::write_unprotect(PageSpan span, FaultSlot* waiter) {
  return change(span, Access::write, HugeEntries::unchanged, waiter);
}

// The process has no access to pages that are not mapped. So each access faults, and is refused.
OpResult ProtectionMapper::forbid(PageSpan span, PageIndex) {
  return {OpStatus::ok, span.bytes()};
}

// The thread whose fault was refused gets its signal in any case (FaultSource::answered()). Other
// threads keep the access that they have.
OpResult ProtectionMapper::hide(PageSpan span) {
  return {OpStatus::ok, span.bytes()};
}

// Each thread waits for the answer to its own fault (FaultSource::answered()).
OpResult ProtectionMapper::wake(PageSpan span) {
  return {OpStatus::ok, span.bytes()};
}

}  // namespace wherry::impl
