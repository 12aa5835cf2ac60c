// Faults that one handler has put aside until it is time for them, the most urgent first. Not
// thread-safe: each handler has its own.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "faults/fault_service.h"
#include "os/memory/mapped_memory.h"

namespace wherry::impl {

class PostponedFaults {
 public:
  // `memory` must not be malloc's, because a thread that waits for an answer may hold malloc's
  // lock. Throws std::bad_alloc.
  explicit PostponedFaults(std::pmr::memory_resource& memory = mapped_memory()) : faults_(&memory) {
    faults_.reserve(room_first);
  }

  // `due`: a time of now_ns(). Returns false, and changes nothing, if there is no memory to
  // remember the fault.
  [[nodiscard]] bool put(std::uint64_t due, Fault& fault) {
    try {
      if (faults_.size() == faults_.capacity()) faults_.reserve(2 * faults_.capacity());
    } catch (const std::bad_alloc&) {
      return false;
    }
    faults_.push_back({due, std::move(fault)});
    std::ranges::push_heap(faults_, std::ranges::greater{}, &Postponed::due);
    return true;
  }
  // When the next fault is due; nullopt if there is none.
  std::optional<std::uint64_t> next_due() const {
    if (faults_.empty()) return std::nullopt;
    return faults_.front().due;
  }
  // Takes a fault that is due at `now`.
  std::optional<Fault> take_due(std::uint64_t now) {
    if (faults_.empty() || faults_.front().due > now) return std::nullopt;
    std::ranges::pop_heap(faults_, std::ranges::greater{}, &Postponed::due);
    Fault fault = std::move(faults_.back().fault);
    faults_.pop_back();
    return fault;
  }

 private:
  struct Postponed {
    std::uint64_t due;
    Fault fault;
  };

  static constexpr std::size_t room_first = 256;

  std::pmr::vector<Postponed> faults_;  // a heap
};

}  // namespace wherry::impl
