// Which processors can map which pools, and the relative cost of each access, as input for
// policies.
#pragma once

#include <array>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

struct AccessCosts {
  std::array<ProcessorMask, max_processors> maps{};  // maps[p]: the pools that p can map
  // close[p]: p's own pool, and, where neither is emulated, those that p accesses nearly as fast.
  std::array<ProcessorMask, max_processors> close{};
  // percent[p][q]: cost of an access by p to memory in q's pool, in percent of an access to its
  // own. 0: unknown; counts as equally fast.
  std::array<std::array<std::uint16_t, max_processors>, max_processors> percent{};

  // Whether `of[p]` contains `at` for each processor p in `users`.
  bool all_in(const std::array<ProcessorMask, max_processors>& of, ProcessorMask users,
              Processor at) const {
    for (int i = 0; i < max_processors; ++i)
      if ((users & Processor{i}.bit()) != 0 && (of[static_cast<std::size_t>(i)] & at.bit()) == 0)
        return false;
    return true;
  }
};

}  // namespace wherry::impl
