#include "migration/consolidator.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "base/clock.h"
#include "base/patience.h"
#include "os/process/thread.h"

namespace wherry::impl {
namespace {

constexpr std::uint64_t per_mille_of_each_cpu = 10;
// After a rest 1 GiB may be consolidated at once, which takes 0.3 to 0.5 s.
constexpr std::uint64_t most_at_once_ns = 500'000'000;
// The thread ends after so many refusals in a row (twice as many after a success): they are taken
// for a property of this Linux, not for an effect of what threads do meanwhile.
constexpr int refusals_max = 32;
// How long the thread waits while pages of the block are in flight, one after another, or while
// Linux changes a process's mappings.
constexpr std::uint64_t repetition_limit_ns = 10'000'000'000;
constexpr std::chrono::milliseconds repetition_pause{1};

// Calls attempt() until it returns true. Returns false after the limit. attempt() locks the block
// itself, so that the block is free during the pauses.
template <typename F>
bool repeat(F attempt) {
  for (Patience patience(repetition_limit_ns, AtLimit::goes_on); !patience.is_over();
       patience.note_wait()) {
    if (attempt()) return true;
    std::this_thread::sleep_for(repetition_pause);
  }
  return false;
}

}  // namespace

Consolidator::Consolidator(PageEngine& engine, BlockDirectory& blocks, PinGate& pins,
                           std::span<ViewChanger* const> changers, unsigned cpus)
    : engine_(engine),
      blocks_(blocks),
      pins_(pins),
      allowance_(per_mille_of_each_cpu * cpus, most_at_once_ns) {
  std::ranges::copy(changers, changers_.begin());
}

void Consolidator::start() {
  engine_.entries().scattered_blocks().open();
  const SignalBlock no_signals;
  thread_ = std::thread([this] { work(); });
}

Consolidator::~Consolidator() {
  engine_.entries().scattered_blocks().close();
  if (thread_.joinable()) thread_.join();
}

void Consolidator::work() {
  name_this_thread("wherry-merge");
  thread_gets_no_signals();
  std::uint64_t earliest_ns = 0;
  std::uint64_t used_ns = thread_cpu_ns();
  int refusals = 0;
  while (const auto noted = engine_.entries().scattered_blocks().take(earliest_ns)) {
    const bool enters = consolidate(noted->block, noted->attempts);
    if (enters)
      refusals = -refusals_max;
    else if (noted->attempts == 0)  // a block counts once
      ++refusals;
    if (refusals == refusals_max) {
      engine_.entries().scattered_blocks().close();
      return;
    }
    const std::uint64_t used_before = std::exchange(used_ns, thread_cpu_ns());
    earliest_ns = allowance_.use(used_ns - used_before, now_ns());
  }
}

std::optional<Processor> Consolidator::scattered_at(const LockedBlock& block) const {
  const ProcessorMask holders = block.state.residents(0);
  if (holders == 0) return std::nullopt;
  const Processor owner{std::countr_zero(holders)};
  const bool is_scattered = engine_.entries().is_scattered(block, engine_.table_of(owner));
  return is_scattered ? std::optional(owner) : std::nullopt;
}

Consolidator::Merged Consolidator::merge(BlockIndex index, Processor& owner) {
  const LockGuard gate(pins_.lock);
  Block& state = blocks_.at(index);
  {
    const LockedBlock block(index, state);
    block.state.is_noted_as_scattered = false;
    const auto holder = scattered_at(block);
    if (!holder || !pins_.pinned(index).none()) return Merged::not_wanted;
    owner = *holder;
    // Not needed with a userfaultfd: nobody gets a reference to a page that leaves, because the
    // access faults and waits for the block's lock.
    if (!engine_.at(engine_.table_of(owner)).mapper.punch_unmaps())
      engine_.entries().scattered_blocks().merge_begins(block, owner);
  }
  const int error = engine_.at(owner).file.merge(block_span(index));
  const LockedBlock block(index, state);
  engine_.entries().scattered_blocks().merge_ends(block);
  return error == 0 ? Merged::yes : Merged::refused;
}

bool Consolidator::enter(BlockIndex index, Processor owner, bool merged, bool& is_restored) {
  const LockGuard gate(pins_.lock);
  const bool wanted = merged && pins_.pinned(index).none();
  Block& state = blocks_.at(index);
  {
    const LockedBlock block(index, state);
    const bool prepared = wanted && engine_.entries().prepare_huge_entry(block, owner);
    // Linux has removed the pages' entries from every page table, also if it then refused to merge.
    is_restored = engine_.entries().restore(block, owner);
    if (!prepared) return true;
  }
  // In the host and with mprotect, map_whole() removes the page table itself.
  const PageSpan span = block_span(index);
  const Processor p = engine_.table_of(owner);
  if (!p.is_host() && engine_.at(p).mapper.punch_unmaps())
    (void)changers_[static_cast<std::size_t>(p.index)]->forget_entries({&span, 1});
  const LockedBlock block(index, state);
  return engine_.entries().finish_huge_entry(block, owner);
}

bool Consolidator::attempt(BlockIndex index) {
  Processor owner;
  const Merged merged = merge(index, owner);
  if (merged == Merged::not_wanted) return true;
  // After the limit, pages of zeros may stay in the owner's pool.
  const auto restore_holes = [&] {
    const LockedBlock block(index, blocks_.at(index));
    return engine_.restore_holes(block, owner);
  };
  if (merged == Merged::yes && !repeat(restore_holes)) return true;
  bool is_restored = false;
  const bool enters = enter(index, owner, merged == Merged::yes, is_restored);
  // After the limit, the next fault on a page enters it.
  const auto restore_entries = [&] {
    const LockedBlock block(index, blocks_.at(index));
    return engine_.entries().restore(block, owner, /*is_repeated=*/true);
  };
  if (!is_restored) (void)repeat(restore_entries);
  return enters;
}

bool Consolidator::consolidate(BlockIndex index, int attempts) {
  const bool enters = attempt(index);
  if (attempts + 1 == attempts_max) return enters;
  const LockedBlock block(index, blocks_.at(index));
  if (scattered_at(block)) engine_.entries().scattered_blocks().note(block, now_ns(), attempts + 1);
  return enters;
}

}  // namespace wherry::impl
