// The processors of tests of the runtime's parts.
#pragma once

#include "base/processor.h"

namespace wherry::test {

inline constexpr impl::Processor host = impl::Processor::host();
inline constexpr impl::Processor device = impl::Processor::device(0);
inline constexpr impl::Processor other_device = impl::Processor::device(1);

}  // namespace wherry::test
