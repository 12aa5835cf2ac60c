// What was decided about pages last, for whoever asks why one is where it is: always kept, bounded,
// the oldest is overwritten. Writing takes no lock, and is allowed in a signal handler.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/page_mask.h"
#include "base/processor.h"
#include "os/memory/mapping.h"
#include "policy/advice_rules.h"
#include "trace/event.h"

namespace wherry::impl {

struct DecisionRecord {
  static constexpr std::int8_t no_processor = -1;

  std::uint64_t time_ns = 0;
  BlockIndex block;
  PageRun run = {};
  std::uint64_t waited_ns = 0;  // its thread had been kept waiting for so long
  std::int8_t faulting_processor = no_processor;
  std::int8_t source = no_processor;  // where the pages were; no_processor: nowhere
  std::int8_t destination = no_processor;
  Reason reason = Reason::no_fault;
  EventCause cause = EventCause::none;
  EventAccess access = EventAccess::none;
  std::uint16_t unused = 0;
};

class DecisionLog {
 public:
  static constexpr std::size_t capacity = 4096;

  // Memory is committed as it is written. Throws std::system_error.
  DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  void add(const DecisionRecord& record) noexcept;
  // The latest ones about this page since it was released, newest first, at most so many. Throws
  // std::bad_alloc.
  std::vector<DecisionRecord> latest(BlockIndex block, unsigned page, std::size_t most) const;

 private:
  static constexpr std::size_t words = sizeof(DecisionRecord) / sizeof(std::uint64_t);
  static_assert(sizeof(DecisionRecord) % sizeof(std::uint64_t) == 0);

  // `turn` of a place: 2n + 1 while entry n is written, 2n + 2 since it is; so memory that is zero
  // is a log that is empty.
  struct Place {
    std::atomic<std::uint64_t> turn{0};
    std::array<std::atomic<std::uint64_t>, words> record{};
  };

  std::optional<DecisionRecord> entry(std::uint64_t number) const;

  const Mapping memory_;
  Place* const ring_;
  std::atomic<std::uint64_t> next_{0};
};

}  // namespace wherry::impl
