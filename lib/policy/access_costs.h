// Who can use whose memory, and how fast it is for him, as a policy needs to know it.
#pragma once

#include <array>
#include <cstdint>

#include "base/processor.h"

namespace wherry::impl {

struct AccessCosts {
  std::array<ProcessorMask, max_processors> maps{};  // [p]: whose pools p can map
  // [p]: whose pools p uses nearly as fast as its own, or is to be taken to
  std::array<ProcessorMask, max_processors> close{};
  // [p][q]: what an access of p to memory in q's pool takes, in percent of one to its own. 0: not
  // known, as fast.
  std::array<std::array<std::uint16_t, max_processors>, max_processors> percent{};

  bool all_in(const std::array<ProcessorMask, max_processors>& of, ProcessorMask users,
              Processor at) const {
    for (int i = 0; i < max_processors; ++i)
      if ((users & Processor{i}.bit()) != 0 && (of[static_cast<std::size_t>(i)] & at.bit()) == 0)
        return false;
    return true;
  }
};

}  // namespace wherry::impl
