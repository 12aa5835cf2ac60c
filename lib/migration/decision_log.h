// The latest decisions about pages, for wherryExplainPage(). Always kept; bounded: a new record
// overwrites the oldest. Writing takes no lock, and is allowed in a signal handler.
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
  std::uint64_t waited_ns = 0;  // how long the faulting thread had waited
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

  // Linux commits the memory when it is written. Throws std::system_error.
  DecisionLog();
  DecisionLog(const DecisionLog&) = delete;
  DecisionLog& operator=(const DecisionLog&) = delete;

  void add(const DecisionRecord& record) noexcept;
  // The latest records about this page, newest first, at most `most`. Records up to the last
  // EventCause::release (the memory was freed or discarded) are left out. Throws std::bad_alloc.
  std::vector<DecisionRecord> latest(BlockIndex block, unsigned page, std::size_t most) const;

 private:
  static constexpr std::size_t words = sizeof(DecisionRecord) / sizeof(std::uint64_t);
  static_assert(sizeof(DecisionRecord) % sizeof(std::uint64_t) == 0);

  // `turn` of a place: 2n + 1 while entry n is being written, 2n + 2 after that. So zeroed memory
  // is an empty log.
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
