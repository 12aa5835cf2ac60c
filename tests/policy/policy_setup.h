// What tests of several policies share.
#pragma once

#include "policy/access_costs.h"
#include "support/processors.h"

namespace wherry::test {

inline constexpr std::uint64_t us = 1000;
inline constexpr std::uint64_t ms = 1'000'000;

// All processors can map all memory, but no other memory is close.
inline impl::AccessCosts far_reach() {
  impl::AccessCosts access_costs;
  access_costs.maps.fill(~impl::ProcessorMask{0});
  for (int i = 0; i < impl::max_processors; ++i) access_costs.close[i] = impl::Processor{i}.bit();
  return access_costs;
}

}  // namespace wherry::test
