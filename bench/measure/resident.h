// The speed of accesses to memory that is resident: reads whose addresses depend on each other, and
// the triad a = b + 3 c.
#pragma once

#include <cstddef>

namespace wherry::bench {

struct ResidentSpeed {
  double random_ns;  // for one read
  double triad_gb_per_s;
};

// Overwrites the memory. Runs where it is called: on the host or on a device.
ResidentSpeed resident_speed(std::byte* memory, std::size_t bytes);

}  // namespace wherry::bench
