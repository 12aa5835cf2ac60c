// The interface of policies. A policy receives facts about a fault and returns its opinion as a
// value. It makes no system call, takes no lock and has no clock, so it behaves alike in live runs,
// tests and replays. Several threads may ask it at the same time about different blocks.
//
// The program's advice has precedence (policy/advice_rules.h); the policy is asked where advice
// does not determine the destination.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/page_mask.h"
#include "base/processor.h"
#include "pages/block_history.h"
#include "trace/event.h"

namespace wherry::impl {

// Longest total time for which a policy may throttle one fault. After that its throttling is
// ignored.
inline constexpr std::uint64_t throttle_limit_ns = 5'000'000'000;

// What is known when a processor faults on `page` (a page number within its block).
struct FaultFacts {
  Processor faulting_processor;
  // The processor whose page table it uses: itself, or the host if it is a coherent device.
  Processor table;
  ProcessorMask coherent = 0;  // devices that share the host's page table
  // Whole blocks move: there are coherent devices, the fault is theirs or the host's, and earlier
  // attempts have not restricted it to its region.
  bool moves_blocks = false;
  BlockIndex block;
  unsigned page = 0;
  int processors = 1;  // the number of processors, including the host
  bool write = false;
  std::uint64_t now_ns = 0;            // when the fault is being handled
  ProcessorMask residents = 0;         // the pools that hold the page; 0: it is absent
  bool read_mostly = false;            // the program advised read-mostly
  std::optional<Processor> preferred;  // the program's preferred location
  ProcessorMask accessed_by = 0;       // processors that the program advised accessed-by
  bool pinned = false;                 // the page must not move, and has no copies
  bool is_managed = true;              // false: a device's own memory, which is only in its pool
  // The block was evicted from the faulting processor's pool as a whole, no page of it has come
  // back, and the pool is large enough to take it back as a whole.
  bool evicted = false;
  // The part of the block that belongs to the same allocation and has the same advice.
  PageRun stretch;
  PageMask held;  // pages of the block in the faulting processor's pool
  // Pages that can be allocated in that pool before an eviction starts, even one ahead of need.
  std::uint64_t free_pages = 0;
  // Pages of the block that are mapped for the faulting processor, from any pool.
  PageMask mapped;
  std::uint64_t fault_ns = 0;  // recent mean cost of a fault (policy/fault_costs.h)
  std::uint64_t page_ns = 0;   // recent mean cost of one transferred page
  unsigned present = 0;        // pages of the stretch that any pool holds; set if grain > 1
  unsigned grain = 1;          // at least this many aligned pages should be treated alike now

  // The processors that use the faulting processor's page table, itself included.
  ProcessorMask sharing() const { return table.bit() | (table.is_host() ? coherent : 0); }
};

// A policy's opinion. An empty optional means no opinion on that question.
struct Opinion {
  std::optional<Processor> destination = {};  // in whose pool the page should be
  // The pages that should be treated like the faulting page. Contains it and lies inside the
  // stretch.
  std::optional<PageRun> region = {};
  // The processor uses one block after another: 1 upwards, -1 downwards. 0: that is not known.
  int sweeps = 0;
  // Until when to throttle the fault; then the policy is asked again. 0: do not throttle it.
  std::uint64_t wait_until_ns = 0;
  // Temporary pin: the page stays at the destination, and other processors map it there, until
  // `pin_until_ns` (0: without limit). When the pin ends, the mappings of the page by processors
  // that do not hold it are removed, so that their next accesses fault and the policy is asked
  // again.
  bool pins = false;
  bool pin_begins = false;  // this opinion begins the pin
  std::uint64_t pin_until_ns = 0;
};

// Why pages moved; also recorded in events.
using MoveCause = EventCause;

// Pages of a block that have arrived in a pool. Their former pools no longer hold them, unless
// `is_copy`.
struct Arrival {
  PageRun run;
  Processor to;
  MoveCause cause = MoveCause::fault;
  bool is_copy = false;
  std::uint64_t now_ns = 0;
};

class Policy {
 public:
  virtual ~Policy() = default;

  // Called under the block's lock, as are all functions with a BlockHistory. `history` belongs to
  // the block; the policy creates it when it has something to remember.
  virtual Opinion on_fault(const FaultFacts& facts,
                           std::unique_ptr<BlockHistory>& history) const = 0;
  // Returns which pages get a copy at a read of read-mostly memory. The run contains the faulting
  // page, which is copied in any case, and lies inside the stretch. nullopt means the page's
  // region.
  virtual std::optional<PageRun> on_copy(const FaultFacts&) const { return std::nullopt; }
  // Pages have moved or got a copy. Not called for pages that have just been created. Returns the
  // processors that compete for pages which this arrival makes thrash and which did not thrash
  // before; 0 if there are none.
  virtual ProcessorMask on_arrival(const Arrival&, std::unique_ptr<BlockHistory>&) const {
    return 0;
  }
  // No pool holds the pages any more, or they were freed. The policy forgets them: their earlier
  // use says nothing about their next use.
  virtual void on_release(PageRun, BlockHistory&) const {}
  // Ends the temporary pins that have expired, and returns their pages; they may move again.
  // Returns an empty mask if there are none.
  virtual PageMask end_temporary_pins(std::uint64_t /*now_ns*/, BlockHistory&) const { return {}; }
  // Whether the policy ever creates a history, which takes memory. If false, a signal handler,
  // which cannot allocate, may resolve faults.
  virtual bool remembers() const { return false; }
};

}  // namespace wherry::impl
