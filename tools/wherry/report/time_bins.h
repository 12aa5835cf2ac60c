// A recording's time, divided into equal parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace wherry::report {

struct TimeBins {
  std::uint64_t start_ns = 0;
  std::uint64_t width_ns = 1;
  std::size_t count = 0;

  // `count` bins from `start_ns` to `end_ns`.
  static TimeBins between(std::uint64_t start_ns, std::uint64_t end_ns, std::size_t count) {
    const std::uint64_t time_ns = end_ns > start_ns ? end_ns - start_ns : 0;
    return {start_ns, time_ns / count + 1, count};
  }

  std::uint64_t end_ns() const { return start_ns + width_ns * count; }
  // A time before the first bin, or after the last, counts as in that one.
  std::size_t bin_of(std::uint64_t time_ns) const {
    if (time_ns < start_ns) return 0;
    return std::min<std::uint64_t>((time_ns - start_ns) / width_ns, count - 1);
  }
  // Calls visit(bin, ns) for each bin that has a part of this interval.
  template <typename Visit>
  void for_parts(std::uint64_t begin_ns, std::uint64_t end_of_part_ns, const Visit& visit) const {
    std::uint64_t at = std::max(begin_ns, start_ns);
    const std::uint64_t end = std::min(end_of_part_ns, end_ns());
    while (at < end) {
      const std::size_t bin = bin_of(at);
      const std::uint64_t next = std::min(end, start_ns + (bin + 1) * width_ns);
      visit(bin, next - at);
      at = next;
    }
  }
};

}  // namespace wherry::report
