// The memory of a replay: the library's page engine, evictor and effects of advice, on processors
// without Linux. Each of their operations succeeds at once. The costs of operations are added up,
// and the caller gives the time in place of a clock.
//
// Not thread-safe; blocks are locked only because the library requires it.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "migration/advice_effects.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/block_directory.h"
#include "policy/policy.h"
#include "replay/cost_model.h"
#include "replay/recorded_victims.h"

namespace wherry::replay {

struct MachineSetting {
  int processors = 1;
  impl::ProcessorMask coherent = 0;                                  // use the host's page table
  std::array<std::uint64_t, impl::max_processors> capacity_pages{};  // 0: no limit
  unsigned region_pages = impl::pages_per_region;  // that a fault brings if a policy has no opinion
  std::span<const std::uint64_t> blocks;           // by number: the address / 2 MiB
  // What full devices evict first; if null, the library's replacement chooses alone.
  const VictimLists* victims = nullptr;
};

// The operation that a replay performs now: since when, and what it costs.
struct Meter {
  std::uint64_t now_ns = 0;
  double cost_ns = 0;
  std::uint64_t copies = 0;                // of runs of pages, by all operations
  std::vector<std::uint64_t> arrivals_ns;  // by block: when its latest pages arrive

  std::uint64_t end_ns() const { return now_ns + static_cast<std::uint64_t>(cost_ns + 0.5); }
  // Pages of a block are copied. They arrive when the operation ends, but not before earlier pages
  // of the block: a block may be evicted before all its pages have arrived.
  void note_copy(impl::PageSpan span);
  // The arrival time of the pages that the calling thread's replay copied last.
  static std::uint64_t last_arrival_ns();
};

class SimulatedProcessor final : public impl::Mapper, public impl::PoolFile {
 public:
  SimulatedProcessor(impl::Processor p, impl::Processor table, std::uint64_t capacity_pages,
                     impl::BlockDirectory& blocks, Meter& meter)
      : memory(p, *this, *this, capacity_pages, blocks, table), meter_(meter) {}

  bool punch_unmaps() const override { return true; }
  unsigned grain() const override { return 1; }
  impl::OpResult unmap(impl::PageSpan span, impl::FaultSlot*) override { return done(span); }
  impl::OpResult copy_protected(impl::PageSpan span, const std::byte*, impl::FaultSlot*) override {
    return copied(span);
  }
  impl::OpResult zero(impl::PageSpan span, impl::FaultSlot*) override { return done(span); }
  impl::OpResult map_resident(impl::PageSpan span, bool, impl::FaultSlot*) override {
    return done(span);
  }
  impl::OpResult map_whole(impl::PageSpan span, impl::FaultSlot*) override { return done(span); }
  impl::OpResult write_protect(impl::PageSpan span, impl::FaultSlot*) override {
    return done(span);
  }
  impl::OpResult write_unprotect(impl::PageSpan span, impl::FaultSlot*) override {
    return done(span);
  }
  impl::OpResult forbid(impl::PageSpan span, impl::PageIndex) override { return done(span); }
  impl::OpResult hide(impl::PageSpan span) override { return done(span); }
  impl::OpResult wake(impl::PageSpan span) override { return done(span); }

  int punch(impl::PageSpan) override { return 0; }
  void left(impl::PageSpan) override {}
  impl::Folios folios(impl::PageSpan, const impl::PageMask&) override {
    return impl::Folios::apart;
  }
  impl::PageSpan folios_around(impl::PageSpan span) const override { return span; }
  void remove_own_entries(impl::PageSpan) override {}
  impl::OpStatus split(impl::PageSpan) override { return impl::OpStatus::ok; }
  void was_split(impl::PageSpan) override {}
  impl::OpStatus rebuild(impl::PageSpan, const impl::PageMask&) override {
    return impl::OpStatus::ok;
  }
  impl::OpResult fill(impl::PageSpan span, const std::byte*) override { return copied(span); }
  impl::OpResult fill_zero(impl::PageSpan span) override { return done(span); }
  void move_to_node(impl::PageSpan, int) override {}
  int merge(impl::PageSpan) override { return 0; }
  bool maps_huge_pages() const override { return false; }
  const std::byte* alias(impl::PageIndex) const override { return nullptr; }

  impl::ProcessorMemory memory;
  // For eviction ahead of need: whether free pages fell below the low watermark and have not
  // reached the high one since, and until when a block is being evicted.
  bool relieving = false;
  std::uint64_t evicting_until_ns = 0;

 private:
  static impl::OpResult done(impl::PageSpan span) { return {impl::OpStatus::ok, span.bytes()}; }
  impl::OpResult copied(impl::PageSpan span) {
    meter_.note_copy(span);
    return done(span);
  }

  Meter& meter_;
};

// All pools of a replay. A block's index is its number in the replay.
class SimulatedMemory final : impl::ViewRequests {
 public:
  // The arguments must outlive this object.
  SimulatedMemory(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy,
                  const impl::AdviceMap& advice);

  // Grows the reservation to so many pages of p's pool, and evicts for them. If that is impossible,
  // empties it and returns false. Not under a block's lock.
  bool reserve(impl::Processor p, std::uint64_t pages, impl::Reservation& reservation);
  // Evicts ahead of need, as the background evictor does; no thread waits for that. Not under a
  // block's lock.
  void keep_free(impl::Processor p, std::uint64_t now_ns);
  // What happens from now on was recorded at `recorded_ns`. Evicts from the devices' pools what the
  // recorded run had evicted by then. Not under a block's lock.
  void follow(std::uint64_t recorded_ns, std::uint64_t now_ns);
  // Frees space for pages that came to p in the recording about now: evicts what the recorded run
  // evicted. Not under a block's lock.
  void make_room(impl::Processor p, std::uint64_t pages);
  // A processor accesses, without a fault, pages of the block in the owner's pool. If the block is
  // being sampled, its use is noted, as in a live run.
  void note_hit(impl::BlockIndex block, impl::Processor owner);

  // Begins an operation. Its costs add up until the next one begins.
  void begin(std::uint64_t now_ns) {
    meter_.now_ns = now_ns;
    meter_.cost_ns = 0;
  }
  Meter& meter() { return meter_; }
  const Meter& meter() const { return meter_; }
  impl::BlockDirectory& blocks() { return blocks_; }
  impl::PageEngine& engine() { return engine_; }
  impl::AdviceEffects& effects() { return effects_; }
  std::uint64_t evictions() const { return evictions_; }  // of blocks
  // The sum of a counter of all processors.
  std::uint64_t sum(std::atomic<std::uint64_t> impl::Counters::*counter) const;

 private:
  bool request(impl::Processor p, impl::BlockIndex block, const impl::PageMask& pages,
               Wish wish) override;
  void carry_out(impl::Processor p, impl::BlockIndex block, const impl::PageMask& pages,
                 Wish wish) override {
    (void)request(p, block, pages, wish);
  }
  void withdraw(impl::Processor, impl::BlockIndex, const impl::PageMask&) override {}
  bool wait_until_done(int) override { return true; }
  bool wait_until_done(impl::Processor, int) override { return true; }

  // Evicts the next block that p's pool evicted in the recording by `until_ns`, unless it may not
  // be evicted now. Returns false if the pool has no such block.
  bool evict_recorded(impl::Processor p, std::uint64_t until_ns);
  std::uint64_t free_pages(impl::Processor p) const;
  // Counts the blocks that the evictor has evicted, and adds what that costs.
  void note_evictions();

  const CostModel& costs_;
  Meter meter_;
  impl::BlockDirectory blocks_;
  const std::vector<std::unique_ptr<SimulatedProcessor>> processors_;
  impl::PageEngine engine_;
  impl::AdviceEffects effects_;
  impl::Evictor evictor_;
  RecordedVictims victims_;
  std::uint64_t recorded_ns_ = 0;
  std::uint64_t evictions_ = 0;
  bool samples_ = false;  // whether accesses to some blocks are sampled
};

}  // namespace wherry::replay
