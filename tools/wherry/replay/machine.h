// The machine of a replay, on which threads access pages: what the fault service, its rules and a
// policy make of that, with the clock of the caller. The rules, the policy, the fault plans and the
// replacement are those of a live run.
//
// One thread's. Each call is answered at once; the times of the calls do not go back.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "policy/advice_rules.h"
#include "policy/fault_plan.h"
#include "replay/recorded_answers.h"
#include "replay/simulated_engine.h"
#include "trace/event.h"

namespace wherry::replay {

// A thread's access to a page, and how far it has come.
struct Touch {
  std::uint32_t block = 0;
  unsigned page = 0;
  impl::Processor faulting_processor;
  bool write = false;
  RecordedAnswer recorded;
  // Of the fault that it became.
  impl::FaultConstraints constraints = {};
  std::uint64_t throttled_ns = 0;
};

struct Answer {
  bool resolved = false;
  std::uint64_t time_ns = 0;  // when it was, or when to ask again
};

class Machine {
 public:
  // All outlive the machine.
  Machine(const MachineSetting& setting, const CostModel& costs, const impl::Policy& policy);

  // Whether the access needs no fault. If so, `extra_ns` is the time that it takes longer because
  // its page is in another pool.
  bool access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns);
  // The first of these pages of the accessed block on which the same access would fault. Nothing:
  // there is none.
  std::optional<unsigned> first_missing(const Touch& touch, const impl::PageMask& pages);
  // Handles the fault of the access.
  Answer resolve(Touch& touch, std::uint64_t now_ns);
  // Does what the program, or the library for it, did. Returns when it has ended.
  std::uint64_t apply(const impl::TraceEvent& change, std::uint64_t now_ns);

  // Ends the temporary pins whose time has come.
  void end_temporary_pins(std::uint64_t now_ns) {
    if (!temporary_pins_.empty() && temporary_pins_.top().until_ns <= now_ns) end_due_pins(now_ns);
  }
  const MachineCounts& counts() { return engine_.counts(); }

 private:
  using Block = impl::Block;
  using LockedBlock = impl::LockedBlock;
  using PageMask = impl::PageMask;
  using PageRun = impl::PageRun;
  using Processor = impl::Processor;
  using MoveCause = impl::MoveCause;

  struct TemporaryPin {
    std::uint64_t until_ns = 0;
    std::uint32_t block = 0;
    PageRun run;

    // The first to end is on top; of those that end together the one with the lowest number.
    bool operator<(const TemporaryPin& other) const {
      if (until_ns != other.until_ns) return until_ns > other.until_ns;
      return block != other.block ? block > other.block : run.first > other.run.first;
    }
  };
  // A fault on the block is being handled until then. The page state has its outcome from the
  // start; the faulting processor sees it at the end.
  struct Busy {
    std::uint64_t until_ns = 0;
    PageMask pages;  // that the processor can access then, and could not before, or not write
    Processor faulting_processor;

    bool brings(const Touch& touch) const {
      return touch.faulting_processor == faulting_processor && pages.test(touch.page);
    }
  };
  struct Attempt {
    enum class Outcome {
      resolved,
      again,        // at `time_ns`
      room_needed,  // `pages` at `at`
    };
    Outcome outcome = Outcome::resolved;
    std::uint64_t time_ns = 0;
    Processor at = {};
    std::uint64_t pages = 0;  // ... or that came, or were mapped
    PageRun region = {};      // what was handled
  };

  // Pages that p accesses without a fault.
  static PageMask open_to(const Block& block, Processor p, bool write) REQUIRES(block.lock);
  impl::FaultFacts facts_of(const Touch& touch, const Block& block, std::uint64_t now_ns)
      REQUIRES(block.lock);
  Attempt attempt(Touch& touch, const LockedBlock& block, std::uint64_t now_ns)
      REQUIRES(block.state.lock);
  impl::Decision decide(const Touch& touch, const LockedBlock& block, const impl::FaultFacts& facts)
      REQUIRES(block.state.lock);
  Attempt wait(Touch& touch, const impl::FaultPlan& plan, std::uint64_t now_ns);
  // Notes in the constraints where there is space. False: there is none where the plan wants it.
  bool reserve(const impl::FaultPlan& plan, const impl::FaultFacts& facts,
               impl::FaultConstraints& constraints);
  Attempt execute(const Touch& touch, const LockedBlock& block, const impl::FaultFacts& facts,
                  const impl::FaultPlan& plan) REQUIRES(block.state.lock);
  void transfer_pages(const Touch& touch, const LockedBlock& block, const impl::FaultPlan& plan,
                      Arrivals& arrivals) REQUIRES(block.state.lock);
  void show(const Touch& touch, const LockedBlock& block, const impl::Decision& decision)
      REQUIRES(block.state.lock);
  // Maps the pages at the processors that are advised to access them.
  void follow(const LockedBlock& block, PageRun run) REQUIRES(block.state.lock);
  void end_due_pins(std::uint64_t now_ns);

  void advise(const impl::TraceEvent& event);
  void apply_advice(std::uint32_t number, PageRun run, const impl::AdviceChange& change);
  // Brings the pages of the run to a pool, from wherever they are.
  void bring_all(std::uint32_t number, PageRun run, Processor to, MoveCause cause);
  void free(std::uint64_t first_page);
  // Calls visit(number, run) for the blocks of the replay that the pages are in.
  template <typename Visit>
  void for_each_block(impl::PageSpan pages, const Visit& visit);

  const CostModel& costs_;
  const impl::Policy& policy_;
  const impl::AdviceRules rules_;
  const std::span<const std::uint64_t> blocks_;
  std::vector<std::uint32_t> by_address_;  // numbers of blocks
  Stretches stretches_;
  SimulatedEngine engine_;
  std::vector<Busy> busy_;  // by block
  std::priority_queue<TemporaryPin> temporary_pins_;
};

}  // namespace wherry::replay
