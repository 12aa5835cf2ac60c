// How faults were answered when they were recorded: what came for each, and how long that took once
// nobody else was in the way. A replay in which the same comes for a fault has it take as long;
// only what is done otherwise costs what such a thing usually does.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trace/event.h"

namespace wherry::replay {

// What came for a fault.
struct Arrivals {
  std::uint16_t pages = 0;                        // that came, or were mapped
  impl::EventKind kind = impl::EventKind::fault;  // how; `fault`: there were none
  std::int8_t destination = impl::EventRecord::nobody;

  bool operator==(const Arrivals&) const = default;
};

struct RecordedAnswer {
  // From when nobody was in the way whom a replay knows of, too, until somebody looked into it:
  // what a machine that is busy takes.
  std::uint32_t wait_ns = 0;
  std::uint32_t ns = 0;  // from then until it was answered; 0: not known
  Arrivals arrivals;
  // Where in the block these are, all and perhaps others.
  std::uint16_t first = 0;
  std::uint16_t end = 0;
};

// Is told of events in the order of their times.
class RecordedAnswers {
 public:
  // A fault, the number of the block where it is, and the number that it is asked about by, larger
  // than any before.
  void add_fault(const impl::EventRecord& event, std::uint32_t block, std::uint32_t number);
  // That fault's thread goes on at `time_ns`, before the answer: an answer to another fault has
  // woken it. When that was.
  std::uint64_t woken(std::uint32_t number, std::uint32_t block, std::uint64_t time_ns);
  // Somebody else's fault for which the page is being taken away at that moment, and since when;
  // nothing: there is none.
  struct Taking {
    std::uint32_t number;
    std::uint64_t since_ns;
  };
  std::optional<Taking> taking(std::uint32_t block, unsigned page, std::int8_t faulting_processor,
                               std::uint64_t time_ns) const;
  // What else is in the record; the number of its block, if that has one.
  void add(const impl::EventRecord& event, std::optional<std::uint32_t> block);

  // Whether it is of the kinds that add() wants to know of.
  static bool concerns(const impl::EventRecord& event);

  // By number; of those that are no fault's nothing is known. Once.
  std::vector<RecordedAnswer> take(std::size_t count) {
    answers_.resize(count);
    return std::move(answers_);
  }

 private:
  // One that may not have been answered by now.
  struct Open {
    static constexpr std::uint32_t nobody = ~std::uint32_t{0};
    std::uint32_t number = nobody;
    std::uint32_t thread = 0;
    unsigned page = 0;
    std::int8_t faulting_processor = impl::EventRecord::nobody;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    std::uint64_t free_ns = 0;      // nobody was in the way then, as far as is known
    std::uint64_t served_ns = 0;    // somebody looked into it; 0: not known
    std::uint64_t answered_ns = 0;  // when the latest pages that came for it began to

    bool is_known() const { return number != nobody; }
  };
  using OpenFaults = std::array<Open, 8>;  // of a block

  // For which of them these pages came; null: it is not there.
  static Open* answered_by(OpenFaults& faults, const impl::EventRecord& event);
  void came(OpenFaults& faults, Open& fault, const impl::EventRecord& event);
  void note_times(const Open& fault);

  std::vector<OpenFaults> open_;  // by block
  std::vector<RecordedAnswer> answers_;
  // By processor: when somebody who needed room there had last made some.
  std::array<std::uint64_t, impl::max_processors> made_room_{};
};

}  // namespace wherry::replay
