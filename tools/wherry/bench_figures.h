// The results and the sizes of the measurements of `wherry bench all`.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "measure/timing.h"

namespace wherry::tool {

// The answer to one question. A figure that was not measured is NaN.
struct Figures {
  double value = std::nan("");
  // What Linux or the hardware permits, measured in the same run by a bare program.
  double limit = std::nan("");
  // What a program would use without the library, measured likewise.
  double peer = std::nan("");
};

struct BenchScale {
  std::size_t bytes = 0;           // of "large memory"; a multiple of 4 MiB
  std::size_t teardown_bytes = 0;  // that measure_teardown() frees
  int cpus = 1;
};

// The figures of several runs.
struct Samples {
  std::vector<double> value, limit, peer;

  Figures medians() const {
    const auto of = [](const std::vector<double>& samples) {
      return samples.empty() ? std::nan("") : bench::median(samples);
    };
    return {of(value), of(limit), of(peer)};
  }
};

}  // namespace wherry::tool
