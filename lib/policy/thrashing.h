// Detects thrashing: pages that processors repeatedly take from each other. On a fault of such a
// page it advises to throttle the faulting processor, or to pin the page temporarily, so that other
// processors map it where it is. Rules and numbers are those of NVIDIA's driver, without the rules
// that do not have their intended effect (docs/decisions/policies.md).
//
// A page thrashes after several moves in a row, each soon after the last. Time is then divided into
// periods. In each period one processor has the page to itself, a different one each time, and the
// others are throttled until the period ends. If the page still thrashes after many throttlings, it
// is pinned temporarily.
//
// Holds the state of one block. The caller holds the block's lock. It makes no system call except
// for memory, and has no clock.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

#include "base/page_mask.h"
#include "base/processor.h"
#include "os/memory/mapped_memory.h"
#include "policy/access_costs.h"

namespace wherry::impl {

struct ThrashingParameters {
  unsigned threshold = 3;              // consecutive moves after which a page thrashes; 1..7
  unsigned pin_threshold = 10;         // throttlings after which it is pinned; 1..255
  std::uint64_t lapse_ns = 500'000;    // longest time between two consecutive moves
  std::uint64_t nap_ns = 500'000;      // length of a throttling period
  std::uint64_t pin_ns = 150'000'000;  // length of a temporary pin; 0: without limit
  // After this time without thrashing the state of the block is reset.
  std::uint64_t epoch_ns = 1'000'000'000;
  unsigned resets_max = 4;  // at most this many resets of a block
};

class Thrashing {
 public:
  struct Request {
    unsigned page = 0;
    Processor faulting_processor;
    std::uint64_t now_ns = 0;
    Processor resident;  // the pool that holds the page and is closest to the faulting processor
    std::optional<Processor> preferred;  // the advised preferred location
  };
  struct Hint {
    enum class Kind {
      none,      // no advice: the page may move
      throttle,  // the faulting processor waits until `until_ns`
      // The page goes to `at` and stays there until `until_ns`; other processors map it there.
      pin,
    };
    Kind kind = Kind::none;
    std::uint64_t until_ns = 0;  // for a pin, 0: without limit
    Processor at = {};
    bool begins = false;  // true: the page was not pinned before
  };

  // The pages have moved to `to` because of its fault. Returns the processors that have competed
  // for those pages which begin to thrash with this move; 0: no page does.
  ProcessorMask moved(PageRun run, Processor to, std::uint64_t now_ns,
                      const ThrashingParameters& parameters);
  // Forgets the history of the pages: the program itself has determined their location, or made
  // them read-mostly.
  void forget(PageRun run);
  // Returns the advice for this fault.
  Hint hint(const Request& request, const AccessCosts& access_costs,
            const ThrashingParameters& parameters);
  // Ends the temporary pins that have expired, forgets those pages and returns them. The caller
  // should remove the mappings of these pages by processors that do not hold them, so that their
  // next accesses fault.
  PageMask unpin(std::uint64_t now_ns);

  const PageMask& thrashing() const { return thrashing_; }
  const PageMask& pinned() const { return pinned_; }

 private:
  struct Page {
    std::uint64_t last_ns = 0;  // of the last move; 0: none yet
    std::uint64_t period_end_ns = 0;
    std::uint64_t throttled_until_ns = 0;
    std::uint64_t unpin_ns = 0;
    ProcessorMask users = 0;      // processors that have competed for it
    ProcessorMask throttled = 0;  // processors that were throttled in this period
    std::uint8_t moves = 0;       // consecutive moves, not counting the first
    std::uint8_t throttlings = 0;
    std::int8_t privileged = no_processor;  // the processor that has the page in this period
    std::int8_t pinned_at = no_processor;

    // The start of the quiet time so far. Time in which the fault was throttled does not count as
    // quiet time.
    std::uint64_t quiet_since(std::uint64_t now_ns) const {
      return std::max(last_ns, std::min(throttled_until_ns, now_ns));
    }
  };
  static constexpr std::int8_t no_processor = -1;
  using Pages = std::array<Page, pages_per_block>;

  Page& page(unsigned number) { return (*pages_)[number]; }
  void forget_page(unsigned number);
  bool count_move(unsigned number, Processor to, std::uint64_t now_ns,
                  const ThrashingParameters& parameters);
  // Resets the state of the block if it has not thrashed for an epoch. Returns whether it was
  // reset.
  bool has_aged(std::uint64_t now_ns, const ThrashingParameters& parameters);
  static void roll_period(Page& page, Processor faulting_processor, std::uint64_t now_ns,
                          const ThrashingParameters& parameters);
  Hint decide(const Request& request, Page& page, const AccessCosts& access_costs,
              const ThrashingParameters& parameters);
  Hint pin(const Request& request, Page& page, Processor at, const ThrashingParameters& parameters);
  static Hint throttle(Page& page, Processor faulting_processor);

  // Allocated when two processors have first taken pages of the block from each other.
  MappedPtr<Pages> pages_;
  PageMask thrashing_;
  PageMask pinned_;
  std::uint64_t last_ns_ = 0;  // of the last move; 0: none yet
  std::uint64_t last_thrashing_ns_ = 0;
  unsigned resets_ = 0;
  Processor last_to_ = {};
};

}  // namespace wherry::impl
