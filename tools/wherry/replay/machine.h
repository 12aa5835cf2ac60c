// The machine of a replay, where threads touch pages: what the fault service, its rules and a
// policy make of that, with the clock of whoever asks. The rules, the policy and the replacement
// are those of a live run.
//
// One thread's. What it is asked is answered at once, in the order of the calls, whose times do not
// go back.
#pragma once

#include <cstdint>
#include <optional>
#include <queue>
#include <vector>

#include "policy/advice_rules.h"
#include "replay/page_books.h"
#include "replay/recorded_answers.h"
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
  bool comes_alone = false;  // only its region comes with it
  bool stays_put = false;    // there is no room where it should come to
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

  // Whether it needs no fault; then what it takes longer because its page is elsewhere.
  bool access(const Touch& touch, std::uint64_t now_ns, std::uint64_t& extra_ns);
  // Of these pages of the touched block, the first that the toucher would fault on, as it did;
  // nothing: there is none.
  std::optional<unsigned> first_missing(const Touch& touch, const impl::PageMask& pages);
  // It has faulted.
  Answer resolve(Touch& touch, std::uint64_t now_ns);
  // What the program, or the library for it, does. Returns when it has ended.
  std::uint64_t apply(const impl::EventRecord& change, std::uint64_t now_ns);

  // Has pages move again whose policy had them stay until now.
  void end_temporary_pins(std::uint64_t now_ns) {
    if (!temporary_pins_.empty() && temporary_pins_.top().until_ns <= now_ns) end_due_pins(now_ns);
  }
  const MachineCounts& counts() { return books_.counts(); }

 private:
  using Block = impl::Block;
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
  // Somebody has a block's lock until then. The books have what he does from the start; to the
  // toucher it shows at the end.
  struct Busy {
    std::uint64_t until_ns = 0;
    PageMask pages;  // that the toucher may touch then, and could not before, or not write
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

  // Pages that need no fault.
  static PageMask open_to(const Block& block, Processor p, bool write) REQUIRES(block.lock);
  impl::FaultFacts facts_of(const Touch& touch, const Block& block, std::uint64_t now_ns)
      REQUIRES(block.lock);
  Attempt attempt(Touch& touch, Block& block, std::uint64_t now_ns) REQUIRES(block.lock);
  // Where the page goes that finds no room where it should be.
  impl::Decision without_room(const impl::FaultFacts& facts, impl::Decision wanted) const;
  // Has pages come as is decided; `arrivals`: which, also where there is no room. False: there is
  // no room for them.
  bool bring(const Touch& touch, Block& block, const impl::FaultFacts& facts,
             const impl::Decision& decision, Arrivals& arrivals) REQUIRES(block.lock);
  void show(const Touch& touch, Block& block, const impl::Decision& decision) REQUIRES(block.lock);
  // Has those map the pages who are advised to access them.
  void follow(std::uint32_t number, Block& block, PageRun run) REQUIRES(block.lock);
  void end_due_pins(std::uint64_t now_ns);

  void advise(const impl::EventRecord& event);
  void apply_advice(std::uint32_t number, PageRun run, const impl::AdviceChange& change);
  // The pages of the run come to a pool, wherever they are.
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
  PageBooks books_;
  std::vector<Busy> busy_;  // by block
  std::priority_queue<TemporaryPin> temporary_pins_;
};

}  // namespace wherry::replay
