// How the library handled the recorded faults: which pages moved or were mapped for each fault, and
// how long that took without waiting for other faults. A replay that handles a fault in the same
// way uses the recorded duration. An operation that it does differently costs what the cost model
// says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "trace/event.h"

namespace wherry::replay {

// The pages that moved or were mapped for a fault.
struct Arrivals {
  std::uint16_t pages = 0;                        // number of pages
  impl::EventKind kind = impl::EventKind::fault;  // how; `fault`: no pages
  std::int8_t destination = impl::TraceEvent::no_processor;

  bool operator==(const Arrivals&) const = default;
};

struct RecordedAnswer {
  // How long it took until a handler took the fault, after all delays that the replay itself
  // models: what a busy machine adds.
  std::uint32_t wait_ns = 0;
  std::uint32_t ns = 0;  // from then until the fault was handled; 0: unknown
  Arrivals arrivals;
  // The pages are in [first, end) of the block; that range may contain other pages, too.
  std::uint16_t first = 0;
  std::uint16_t end = 0;
};

// Events must be added in order of their times.
class RecordedAnswers {
 public:
  // Adds a fault. `table`: the processor whose page table had no entry. `block`: the number of the
  // fault's block. `number`: the index of its result in take(), larger than all before.
  void add_fault(const impl::TraceEvent& event, impl::Processor table, std::uint32_t block,
                 std::uint32_t number);
  // The faulting thread continues at `time_ns`, before its fault was handled, because the handler
  // of another fault woke it. Returns the time of the wake.
  std::uint64_t woken(std::uint32_t number, std::uint32_t block, std::uint64_t time_ns);
  // Returns the fault of another processor that is taking the page away at `time_ns`, and since
  // when it does that; nullopt if there is no such fault.
  struct Taking {
    std::uint32_t number;
    std::uint64_t since_ns;
  };
  std::optional<Taking> taking(std::uint32_t block, unsigned page, std::int8_t faulting_processor,
                               std::uint64_t time_ns) const;
  // Adds any other event. `block`: the number of its block, if it has one.
  void add(const impl::TraceEvent& event, std::optional<std::uint32_t> block);

  // Whether add() uses events of this kind.
  static bool concerns(const impl::TraceEvent& event);

  // Returns the results by number. Numbers that add_fault() has not received have an unknown
  // result. To be called once.
  std::vector<RecordedAnswer> take(std::size_t count) {
    answers_.resize(count);
    return std::move(answers_);
  }

 private:
  // A fault that may not have been handled yet.
  struct Open {
    static constexpr std::uint32_t no_processor = ~std::uint32_t{0};
    std::uint32_t number = no_processor;
    std::uint32_t thread = 0;
    unsigned page = 0;
    std::int8_t faulting_processor = impl::TraceEvent::no_processor;
    std::int8_t table = impl::TraceEvent::no_processor;
    std::uint64_t begin_ns = 0;
    std::uint64_t end_ns = 0;
    // From this time on nothing known delayed the fault.
    std::uint64_t free_ns = 0;
    std::uint64_t served_ns = 0;  // when a handler took the fault; 0: unknown
    // the time of the latest event that moved or mapped pages for it
    std::uint64_t answered_ns = 0;

    bool is_known() const { return number != no_processor; }
  };
  using OpenFaults = std::array<Open, 8>;  // faults of one block

  // The fault for which the event's pages moved; null if it is none of `faults`.
  static Open* answered_by(OpenFaults& faults, const impl::TraceEvent& event);
  void came(OpenFaults& faults, Open& fault, const impl::TraceEvent& event);
  void note_times(const Open& fault);

  std::vector<OpenFaults> open_;  // by block number
  std::vector<RecordedAnswer> answers_;
  // By processor: the end of the latest eviction that was needed to make free pages there.
  std::array<std::uint64_t, impl::max_processors> made_room_{};
};

}  // namespace wherry::replay
