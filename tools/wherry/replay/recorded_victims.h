// Which blocks full devices evicted in a recording, and when. The library chooses victims by
// samples of accesses, and by blocks that return after an eviction. A trace has only a part of
// these, so a replay that chose by itself would soon evict other blocks. The accesses that bring
// those back are not in the trace: in the recording they were resident and caused no faults.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/processor.h"

namespace wherry::replay {

struct RecordedVictim {
  std::uint64_t time_ns = 0;
  std::uint32_t block = 0;  // number in the replay
};

// By device, in order of time.
using VictimLists = std::array<std::vector<RecordedVictim>, impl::max_processors>;

class RecordedVictims {
 public:
  // If `lists` is null, there is never a victim. The lists must outlive this object.
  explicit RecordedVictims(const VictimLists* lists) : lists_(lists) {}

  bool are_known() const { return lists_ != nullptr; }

  // The next block that p evicted in the recording, not later than `until_ns`, of which is_there()
  // says that p's pool holds it. Blocks before it are not returned again. Returns nullopt if there
  // is none.
  template <typename IsThere>
  std::optional<std::uint32_t> next(impl::Processor p, std::uint64_t until_ns,
                                    const IsThere& is_there) {
    if (lists_ == nullptr) return std::nullopt;
    const auto device = static_cast<std::size_t>(p.index);
    const std::span<const RecordedVictim> list = (*lists_)[device];
    for (std::size_t i = next_[device]; i < list.size() && list[i].time_ns <= until_ns; ++i)
      if (is_there(list[i].block)) {
        next_[device] = i + 1;
        return list[i].block;
      }
    return std::nullopt;
  }

 private:
  const VictimLists* const lists_;
  std::array<std::size_t, impl::max_processors> next_{};  // in its list
};

}  // namespace wherry::replay
