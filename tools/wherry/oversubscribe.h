// `wherry bench oversubscribe`: one worker of device 0 accesses more memory than the device holds,
// in several orders. Reports its hit rate beside those of well-known replacement policies, and its
// bandwidth.
#pragma once

#include <cstdint>
#include <string>

namespace wherry::tool {

inline constexpr int oversubscribe_rounds_max = 1000;

struct OversubscribeOptions {
  int rounds = 10;
  std::uint64_t seed = 1;
  std::string svg;  // the file for a plot, if not empty
  bool json = false;
};

// The devices are those of WHERRY_DEVICES, or one of 64 MiB. Prints to stdout, or one line to
// stderr on failure. Returns the exit code. Throws wherry::error, std::bad_alloc.
int run_oversubscribe(const OversubscribeOptions& options);

}  // namespace wherry::tool
