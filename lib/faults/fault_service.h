// Answers one fault: decides under the block's lock, has the engine carry it out, then wakes
// whoever slept. Called by the daemon's handler threads, several at once. Never waits: a fault
// whose time has not come is handed back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/lock.h"
#include "base/patience.h"
#include "faults/temporary_pins.h"
#include "migration/evictor.h"
#include "migration/page_engine.h"
#include "pages/address_space.h"
#include "pages/arena_layout.h"
#include "pages/block_directory.h"
#include "policy/advice_rules.h"
#include "policy/fault_costs.h"
#include "trap/fault_source.h"

namespace wherry::impl {

// A fault from when its message was read until somebody has been woken for it.
struct Fault {
  Processor faulting_processor;
  FaultEvent event;
  std::uint64_t page = 0;
  std::uint64_t taken_ns = 0;
  // How long the policy has had it wait, which is not held against anybody; and since when it does.
  // 0: it does not.
  std::uint64_t throttled_ns = 0;
  std::uint64_t throttled_since_ns = 0;
  // How long it has waited in vain. Not counted: waiting for the policy, for something that is
  // under way, and time in which the process did not run.
  WaitedTime waited = WaitedTime(taken_ns);
  bool was_put_off = false;
  bool is_under_way = false;      // what it has waited for since it was looked at last is under way
  bool owes_pin = false;          // its pages are to stay, and there was no memory to remember it
  std::uint64_t carrying_ns = 0;  // how long pages were on their way for it
  // Where the page was before anything was done for it, those in a row with it that shared its
  // fate, and why they did. Nothing: nothing has been done.
  struct Origin {
    std::int8_t source;
    PageRun run;
    Reason reason;
  };
  std::optional<Origin> origin = {};
  int memory_failures = 0;  // how often the kernel had no page for it
  // Its process may have no more mappings: the page must come to the pool that it sees now.
  bool keeps_view = false;
  // All that should come with it, because it was evicted together or mappings are short, could not:
  // only its region does.
  bool comes_alone = false;
  // No room can be made where the page should come to: it stays where it is, or is made where there
  // is room.
  bool stays_put = false;
  // ... for now: it has waited for long in a pool's line, and looks whether there is room
  // elsewhere.
  bool left_line = false;
  // The page goes to a pool whose processor has no process at the moment, and is mapped only by
  // others.
  Entry entry = Entry::at_home;
  // Its thread itself looks into it, in a signal handler: nothing may be allocated, waited for or
  // logged.
  bool in_handler = false;
  bool counted = false;
  bool refused = false;                            // the thread gets a signal
  std::shared_ptr<const FaultSource> source = {};  // where the answer goes
  // Where the page is to come: kept while the fault is postponed, so that younger faults do not get
  // the room that was made for this one. And the progress of that pool's line when it was looked at
  // last.
  Reservation reservation = {};
  std::uint64_t line_progress = 0;
};

class FaultService {
 public:
  FaultService(const ArenaLayout& layout, PageEngine& engine, Evictor& evictor,
               AdviceEffects& effects, BlockDirectory& blocks, AddressSpace& address_space,
               const Audiences& audiences, const AdviceRules& rules, const Policy& policy)
      : layout_(layout),
        engine_(engine),
        evictor_(evictor),
        effects_(effects),
        blocks_(blocks),
        address_space_(address_space),
        audiences_(audiences),
        rules_(rules),
        policy_(policy),
        temporary_pins_(engine, effects, blocks, policy) {}

  // The message becomes a fault, and is counted.
  Fault take(Processor faulting_processor, const FaultEvent& event);
  // Whatever the event says, exactly one wake (or a trap that ends the thread) follows it. Nothing:
  // that has happened. Otherwise when, as now_ns() counts, it must be asked again.
  [[nodiscard]] std::optional<std::uint64_t> resolve(Fault& fault);
  // Its thread only tries again, which may be all that it takes.
  void let_try_again(Fault& fault);
  // The same as resolve() for a touch of the host by the thread that made it, in the handler of the
  // signal that it got. False: this needs what a signal handler may not do, or others use the
  // block, and the fault has to be posted.
  [[nodiscard]] bool resolve_in_handler(const FaultEvent& event);

  TemporaryPins& temporary_pins() { return temporary_pins_; }

 private:
  enum class Outcome {
    resolved,     // the page may be used, or nobody is left who wants it: wake
    try_again,    // the state moved on: look again
    not_yet,      // look again at `due`
    room_needed,  // `room_needed` pages at `destination`
    unallocated,  // no live allocation covers the page
    foreign,      // it is not for the toucher
    full,         // no pool has room for it
    no_memory,    // the kernel has no page for the destination
    lost,         // the pool does not hold what it held: the machine or an outsider took it
    not_here,     // somebody else must look into it
  };
  struct Attempt {
    Outcome outcome;
    PageSpan wake{};
    std::uint64_t due = 0;
    Processor destination{};
    std::uint64_t room_needed = 0;
    bool is_many = false;       // room for more than the region of the page
    bool is_under_way = false;  // not_yet: what it waits for comes to an end by itself
  };

  Attempt attempt(Fault& fault);
  Attempt attempt_locked(Fault& fault, Block& block) REQUIRES(block.state.lock);
  // Says what kind of fault it is where its source does not know.
  void classify(Fault& fault, const Block& block) const REQUIRES(block.state.lock);
  void count_once(Fault& fault) const;
  FaultFacts facts_of(const Fault& fault, const Allocation& allocation, Block& block) const
      REQUIRES(block.state.lock);
  // Room in p's pool, as FaultFacts has it. `room`: what the fault has reserved for itself so far.
  std::uint64_t free_pages(Processor p, const Reservation& reservation) const;
  // The coarsest of those whose mappings this may split.
  unsigned grain_for(Processor faulting_processor, ProcessorMask residents) const;
  // Where the page goes that cannot come to where the policy wants it; nothing: there is no room
  // where it may be.
  std::optional<Decision> without_room(Block& block, const FaultFacts& facts,
                                       const Ownership& owner, Decision wanted,
                                       Reservation& reservation) const REQUIRES(block.state.lock);
  // Both answer nothing when it is done, otherwise why not, or why it need not be.
  // Has the page at the decision's destination, as far as pools go.
  std::optional<Attempt> bring(Fault& fault, const LockedBlock& block,
                               const FaultFacts& facts, const Decision& decision)
      REQUIRES(block.state.lock);
  // Creates what of the decision's region is nowhere, where there is room for it. False: nothing.
  bool fill(const LockedBlock& block, const Decision& decision, Reservation& reservation)
      REQUIRES(block.state.lock);
  // Has it in the toucher's view and page table.
  std::optional<Attempt> show(Fault& fault, const LockedBlock& block, unsigned page,
                              const Decision& decision) REQUIRES(block.state.lock);
  static Fault::Origin origin_of(const Block& block, const FaultFacts& facts,
                                 const Decision& decision) REQUIRES(block.state.lock);
  // What was decided, for who asks later.
  void note_decision(const Fault& fault, const FaultFacts& facts, const Decision& decision,
                     const Fault::Origin& origin);
  // So many pages have come for it.
  void note_cost(Fault& fault, std::uint64_t pages, std::uint64_t ns);
  // Keeps Fault::waited.
  static void note_wait(Fault& fault);
  // Another attempt without what is not of its region.
  static Attempt come_alone(Fault& fault) {
    fault.comes_alone = true;
    return {Outcome::try_again};
  }
  // Everything is in place: lets the threads go on.
  void finish(Fault& fault, PageSpan wake);
  // Makes the room, or the memory, that the attempt found missing. Returns ok, no_memory, absent
  // where nothing can make room, or another status if it may go better later.
  OpStatus relieve(Fault& fault, const Attempt& attempt);
  // Return when to look again, or nothing when the fault has waited in vain for so long that its
  // thread has got a signal instead.
  std::optional<std::uint64_t> put_off(Fault& fault, std::uint64_t due, const char* why);
  // ... for room in p's pool, where the fault waits in the line.
  std::optional<std::uint64_t> put_off_in_line(Fault& fault, Processor p);
  // ... for memory that the kernel, or other faults, may give back.
  std::optional<std::uint64_t> put_off_for_memory(Fault& fault, const char* why);
  // False: the memory is allocated after all.
  bool answer_unallocated(Fault& fault);
  void answer_foreign(Fault& fault);
  void refuse(Fault& fault, const char* why);
  // It is answered: for these pages, at `now` as now_ns() counts.
  void record_answer(const Fault& fault, PageSpan pages, std::uint64_t now) const;
  // The policy has it wait no more.
  void end_throttle(Fault& fault, std::uint64_t now) const;
  void record_throttle(const Fault& fault, EventKind kind, std::uint64_t begun_ns,
                       std::uint64_t now) const;
  struct Suspect {
    Processor faulting_processor;
    std::uint64_t page = 0;
    std::uint32_t thread = 0;
    std::uint64_t answered_ns = 0;
    std::uint64_t audience_changes = 0;  // until then
  };
  // Whether the same touch was reported before. A message about memory that the toucher has not got
  // may be stale: its thread was woken by the answer to a neighbour's fault, and the memory freed
  // since. Then nobody sleeps, and a wake does no harm; a thread that does touch freed memory comes
  // back, with a message that was read after the answer to its first. Where access was given or
  // taken in between, the second message may be as stale as the first.
  bool came_back(const Fault& fault) EXCLUDES(suspects_lock_);

  const ArenaLayout& layout_;
  PageEngine& engine_;
  Evictor& evictor_;
  AdviceEffects& effects_;
  BlockDirectory& blocks_;
  AddressSpace& address_space_;
  const Audiences& audiences_;
  const AdviceRules rules_;
  const Policy& policy_;
  FaultCosts costs_;

  TemporaryPins temporary_pins_;

  Mutex suspects_lock_{LockOrder::suspects};
  // The latest touches of memory that is not allocated; more at once only take another round.
  std::array<Suspect, 64> suspects_ GUARDED_BY(suspects_lock_);
  std::size_t next_suspect_ GUARDED_BY(suspects_lock_) = 0;
};

}  // namespace wherry::impl
