// `wherry bench oversubscribe`: one worker of device 0 goes through more memory than the device
// holds, in several orders; how much it finds there, beside what well-known replacements would have
// found, and how fast it is.
#pragma once

#include <cstdint>

namespace wherry::tool {

inline constexpr int oversubscribe_rounds_max = 1000;

struct OversubscribeOptions {
  int rounds = 10;
  std::uint64_t seed = 1;
  bool json = false;
};

// Devices are WHERRY_DEVICES', or one of 64 MiB. Prints to stdout; one line to stderr on failure.
// Returns the exit code. Throws wherry::error, std::bad_alloc.
int run_oversubscribe(const OversubscribeOptions& options);

}  // namespace wherry::tool
