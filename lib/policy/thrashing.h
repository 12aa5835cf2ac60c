// Finds pages that processors take from each other again and again, and says what to do when one of
// them wants such a page: wait for a moment, or share it where it is. The rules and numbers are
// those of NVIDIA's driver, without the ones that do not do what they are for
// (docs/decisions/policies.md).
//
// A page thrashes when it has moved so often, each time soon after the last. Then in each period
// one processor has the page to itself, a different one each time, and the others wait for the end
// of it. Where that does not end it, the page is pinned for a while: it stays where it is, and
// everybody maps it there.
//
// The state of one block. Without a lock, a clock or a system call of its own.
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
  unsigned threshold = 3;              // moves in a row until a page thrashes; 1..7
  unsigned pin_threshold = 10;         // throttlings until it is pinned; 1..255
  std::uint64_t lapse_ns = 500'000;    // two moves are in a row when they are not farther apart
  std::uint64_t nap_ns = 500'000;      // a period of throttling
  std::uint64_t pin_ns = 150'000'000;  // how long it stays pinned; 0: for ever
  std::uint64_t epoch_ns =
      1'000'000'000;        // nothing thrashed for so long: what is known of the block is forgotten
  unsigned resets_max = 4;  // ... so often in its life
};

class Thrashing {
 public:
  struct Request {
    unsigned page = 0;
    Processor faulting_processor;
    std::uint64_t now_ns = 0;
    Processor resident;                  // where the page is, closest to the toucher
    std::optional<Processor> preferred;  // as advised
  };
  struct Hint {
    enum class Kind {
      none,      // nothing to say: the page may move
      throttle,  // the toucher waits until `until_ns`
      pin,       // the page comes to `at` and stays until `until_ns`, and others map it there
    };
    Kind kind = Kind::none;
    std::uint64_t until_ns = 0;  // 0: for ever
    Processor at = {};
    bool begins = false;  // it was not pinned before
  };

  // The pages have come to `to` because it wanted them. Who wanted those of them that thrash with
  // this move and did not before.
  ProcessorMask moved(PageRun run, Processor to, std::uint64_t now_ns,
                      const ThrashingParameters& parameters);
  // The program itself has said where they should be, or that they are read only: what was seen is
  // forgotten.
  void forget(PageRun run);
  // What to do about this touch.
  Hint hint(const Request& request, const AccessCosts& access_costs,
            const ThrashingParameters& parameters);
  // Forgets pages that have been pinned for their time, and returns them: those who map them
  // elsewhere than at home should be made to fault again. next_unpin(): when there will be some;
  // nothing: never.
  PageMask unpin(std::uint64_t now_ns);
  std::optional<std::uint64_t> next_unpin() const;

  const PageMask& thrashing() const { return thrashing_; }
  const PageMask& pinned() const { return pinned_; }

 private:
  struct Page {
    std::uint64_t last_ns = 0;  // of the last move; 0: none yet
    std::uint64_t period_end_ns = 0;
    std::uint64_t throttled_until_ns = 0;
    std::uint64_t unpin_ns = 0;
    ProcessorMask users = 0;      // all who wanted it
    ProcessorMask throttled = 0;  // in this period
    std::uint8_t moves = 0;       // in a row, after the first
    std::uint8_t throttlings = 0;
    std::int8_t privileged = nobody;  // whom the period belongs to
    std::int8_t pinned_at = nobody;

    // Peace that throttling made is none.
    std::uint64_t quiet_since(std::uint64_t now_ns) const {
      return std::max(last_ns, std::min(throttled_until_ns, now_ns));
    }
  };
  static constexpr std::int8_t nobody = -1;
  using Pages = std::array<Page, pages_per_block>;

  Page& page(unsigned number) { return (*pages_)[number]; }
  void forget_page(unsigned number);
  bool count_move(unsigned number, Processor to, std::uint64_t now_ns,
                  const ThrashingParameters& parameters);
  // True: nothing is known any more.
  bool has_aged(std::uint64_t now_ns, const ThrashingParameters& parameters);
  static void roll_period(Page& page, Processor faulting_processor, std::uint64_t now_ns,
                          const ThrashingParameters& parameters);
  Hint decide(const Request& request, Page& page, const AccessCosts& access_costs,
              const ThrashingParameters& parameters);
  Hint pin(const Request& request, Page& page, Processor at, const ThrashingParameters& parameters);
  static Hint throttle(Page& page, Processor faulting_processor);

  MappedPtr<Pages> pages_;  // once two processors have taken something of the block from each other
  PageMask thrashing_;
  PageMask pinned_;
  std::uint64_t last_ns_ = 0;  // of the last move; 0: none yet
  std::uint64_t last_thrashing_ns_ = 0;
  unsigned resets_ = 0;
  Processor last_to_ = {};
};

}  // namespace wherry::impl
