// Faults that one handler has put aside until it is time for them, the most urgent first. Not
// thread-safe: each handler has its own.
#pragma once

#include <cstdint>
#include <memory_resource>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "faults/fault_service.h"
#include "os/mapped_memory.h"

namespace wherry::impl {

class PostponedFaults {
 public:
  PostponedFaults() : faults_({}, make_room()) {}

  // `due`: a moment as now_ns() counts.
  void put(std::uint64_t due, const Fault& fault) { faults_.push({due, fault}); }
  // When the next one is due; nothing when there is none.
  std::optional<std::uint64_t> next_due() const {
    if (faults_.empty()) return std::nullopt;
    return faults_.top().due;
  }
  // Takes one that is due at `now`.
  std::optional<Fault> take_due(std::uint64_t now) {
    if (faults_.empty() || faults_.top().due > now) return std::nullopt;
    const Fault fault = faults_.top().fault;
    faults_.pop();
    return fault;
  }

 private:
  struct Postponed {
    std::uint64_t due;
    Fault fault;
    bool operator<(const Postponed& other) const { return due > other.due; }
  };
  // Not of malloc, whose lock somebody may hold who waits for an answer.
  using Queue = std::priority_queue<Postponed, std::pmr::vector<Postponed>>;

  static constexpr std::size_t room_first = 256;

  static std::pmr::vector<Postponed> make_room() {
    std::pmr::vector<Postponed> room(&mapped_memory());
    room.reserve(room_first);
    return room;
  }

  Queue faults_;
};

}  // namespace wherry::impl
