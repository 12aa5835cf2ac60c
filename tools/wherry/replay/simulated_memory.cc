#include "replay/simulated_memory.h"

#include <algorithm>

#include "migration/background_evictor.h"

namespace wherry::replay {
namespace {

using impl::BlockIndex;
using impl::OpStatus;
using impl::PageMask;
using impl::PageRun;
using impl::Processor;

// A pool that needs free pages evicts the blocks that it evicted in the recording up to now, and
// those that it evicted there within this time from now.
constexpr std::uint64_t soon_ns = 100'000'000;

// Thread-local and not a member, because the library takes its clock as a plain function.
thread_local std::uint64_t arrived_last_ns = 0;

class SimulatedBackend final : public impl::CopyBackend {
 public:
  explicit SimulatedBackend(Meter& meter) : meter_(meter) {}

  unsigned slots() const override { return 1; }
  void begin(unsigned, const impl::PageTransfer& transfer) override {
    meter_.note_copy(transfer.span);
  }
  void begin(unsigned, const impl::ByteTransfer&) override {}
  impl::TransferResult next() override { return {0, OpStatus::ok, /*released=*/true}; }

 private:
  Meter& meter_;
};

}  // namespace

void Meter::note_copy(impl::PageSpan span) {
  ++copies;
  std::uint64_t& latest = arrivals_ns[impl::block_of(span.first).value];
  arrived_last_ns = latest = std::max(latest, end_ns());
}

std::uint64_t Meter::last_arrival_ns() {
  return arrived_last_ns;
}

namespace {

std::vector<std::unique_ptr<SimulatedProcessor>> make_processors(const MachineSetting& setting,
                                                                 impl::BlockDirectory& blocks,
                                                                 Meter& meter) {
  std::vector<std::unique_ptr<SimulatedProcessor>> processors;
  for (int i = 0; i < setting.processors; ++i) {
    const Processor p{i};
    const std::uint64_t capacity = setting.capacity_pages[static_cast<std::size_t>(i)];
    processors.push_back(std::make_unique<SimulatedProcessor>(
        p, (setting.coherent & p.bit()) != 0 ? Processor::host() : p,
        capacity == 0 ? ~std::uint64_t{0} : capacity, blocks, meter));
  }
  return processors;
}

std::vector<impl::ProcessorMemory*> memories_of(
    const std::vector<std::unique_ptr<SimulatedProcessor>>& processors) {
  std::vector<impl::ProcessorMemory*> memories;
  for (const auto& processor : processors) memories.push_back(&processor->memory);
  return memories;
}

}  // namespace

SimulatedMemory::SimulatedMemory(const MachineSetting& setting, const CostModel& costs,
                                 const impl::Policy& policy, const impl::AdviceMap& advice)
    : costs_(costs),
      meter_{.arrivals_ns = std::vector<std::uint64_t>(setting.blocks.size())},
      blocks_(std::max<std::size_t>(setting.blocks.size(), 1), setting.processors),
      processors_(make_processors(setting, blocks_, meter_)),
      engine_(memories_of(processors_), nullptr, &policy, Meter::last_arrival_ns),
      effects_(engine_, *this, blocks_, advice),
      evictor_(
          engine_, blocks_, effects_, [this] { return std::make_unique<SimulatedBackend>(meter_); },
          impl::usual_transfer_pages_min),
      victims_(setting.victims) {}

// The caller holds the block's lock.
bool SimulatedMemory::request(Processor p, BlockIndex index, const PageMask& pages, Wish wish)
    WHERRY_TSA(no_thread_safety_analysis) {
  impl::Block& block = blocks_.at(index);
  const auto change = [&](const PageMask& changed, Processor owner) REQUIRES(block.lock) {
    for (const PageRun run : impl::runs_of(changed)) block.switched(p, run, owner);
  };
  if (wish != Wish::see) {
    // Only pages in p's own pool cost time: an access to these waits for the change of p's view.
    meter_.cost_ns += costs_.remote_map.of((pages & block.at(p).resident).count());
    change(wish == Wish::tidy ? pages & block.absent() : pages, p);
    return true;
  }
  PageMask left = pages - block.absent();
  meter_.cost_ns += costs_.remote_map.of(left.count());
  for (int i = 0; i < engine_.processors(); ++i) {
    const PageMask there = left & block.at(Processor{i}).resident;
    change(there, Processor{i});
    left -= there;
  }
  return true;
}

std::uint64_t SimulatedMemory::free_pages(Processor p) const {
  const impl::Capacity& capacity = engine_.at(p).capacity;
  return capacity.pages() - capacity.reserved();
}

bool SimulatedMemory::evict_recorded(Processor p, std::uint64_t until_ns) {
  const auto victim = victims_.next(p, until_ns, [&](std::uint32_t number) {
    impl::Block& block = blocks_.at({number});
    const impl::LockGuard guard(block.lock);
    return !block.at(p).resident.none();
  });
  if (!victim) return false;
  (void)evictor_.evict({*victim}, {p, 0, {}, 0, /*background=*/true});
  note_evictions();
  return true;
}

void SimulatedMemory::follow(std::uint64_t recorded_ns, std::uint64_t now_ns) {
  if (!victims_.are_known()) return;
  recorded_ns_ = recorded_ns;
  begin(now_ns);
  for (int i = 1; i < engine_.processors(); ++i)
    while (evict_recorded(Processor{i}, recorded_ns)) {
    }
}

void SimulatedMemory::make_room(Processor p, std::uint64_t pages) {
  // A fault leaves the pages below the low watermark free (faults/fault_attempt.h).
  const std::uint64_t kept = impl::Watermarks::of(engine_.at(p).capacity.pages()).low;
  while (free_pages(p) < pages + kept && evict_recorded(p, recorded_ns_ + soon_ns)) {
  }
}

void SimulatedMemory::note_evictions() {
  std::array<impl::Eviction, 64> evicted;
  while (const std::size_t count = evictor_.log().take(evicted)) {
    evictions_ += count;
    for (const impl::Eviction& eviction : std::span(evicted).first(count))
      meter_.cost_ns += costs_.evict_page_ns * (eviction.moved + eviction.dropped);
  }
}

bool SimulatedMemory::reserve(Processor p, std::uint64_t pages, impl::Reservation& reservation) {
  while (free_pages(p) + reservation.pages() < pages && evict_recorded(p, recorded_ns_ + soon_ns)) {
  }
  OpStatus status = OpStatus::incomplete;
  do status = evictor_.reserve({p, pages}, reservation);
  while (status == OpStatus::incomplete && engine_.resident_blocks(p).size() != 0);
  note_evictions();
  if (status != OpStatus::ok) reservation.release();
  return status == OpStatus::ok;
}

void SimulatedMemory::keep_free(Processor p, std::uint64_t now_ns) {
  if (victims_.are_known()) return;  // follow() evicts them
  SimulatedProcessor& its = *processors_[static_cast<std::size_t>(p.index)];
  const auto marks = impl::Watermarks::of(its.memory.capacity.pages());
  if (free_pages(p) >= (its.relieving ? marks.high : marks.low)) {
    its.relieving = false;
    return;
  }
  // One block at a time, so that a block that is still arriving is not evicted.
  if (now_ns < its.evicting_until_ns) return;
  begin(now_ns);
  its.relieving = evictor_.evict_one({p, 0, {}, 0, /*background=*/true}) == OpStatus::ok;
  note_evictions();
  if (its.relieving) samples_ |= engine_.resident_blocks(p).sample().has_value();
  its.evicting_until_ns = meter_.end_ns();
}

void SimulatedMemory::note_hit(BlockIndex block, Processor owner) {
  if (!samples_ || owner.is_host()) return;
  if (impl::ResidentBlocks& blocks = engine_.resident_blocks(owner); blocks.is_sampled(block))
    blocks.accessed(block);
}

std::uint64_t SimulatedMemory::sum(std::atomic<std::uint64_t> impl::Counters::*counter) const {
  std::uint64_t sum = 0;
  for (const auto& its : processors_) sum += (its->memory.counters.*counter).load();
  return sum;
}

}  // namespace wherry::replay
