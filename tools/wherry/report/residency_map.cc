#include "residency_map.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace wherry::report {

ResidencyMap::ResidencyMap(const AddressRows& rows, const TimeBins& bins, std::uint64_t page_bytes,
                           std::size_t processors)
    : rows_(rows),
      bins_(bins),
      page_bytes_(page_bytes),
      processors_(processors),
      pages_(rows.size() * (processors + 1)),
      since_(rows.size(), bins.start_ns),
      page_ns_(rows.size() * (processors + 1) * bins.count) {}

void ResidencyMap::change(std::uint64_t time_ns, std::uint64_t address, std::uint16_t before,
                          std::uint16_t after) {
  if (address < last_.extent.begin || address >= last_.extent.end) {
    const auto row = rows_.find(address);
    if (!row) return;
    last_ = *row;
    settle(last_.number, time_ns);
  } else if (time_ns != last_time_ns_) {
    settle(last_.number, time_ns);
  }
  last_time_ns_ = time_ns;
  std::uint32_t* const pages = &pages_[last_.number * holders()];
  if (before != 0) --pages[holder_of(before)];
  if (after != 0) ++pages[holder_of(after)];
}

void ResidencyMap::end() {
  for (std::size_t row = 0; row < rows_.size(); ++row) settle(row, bins_.end_ns());
}

std::uint8_t ResidencyMap::share(std::size_t holder, std::size_t row, std::size_t bin) const {
  const double all = static_cast<double>(rows_.extent_of(row).bytes() / page_bytes_) *
                     static_cast<double>(bins_.width_ns);
  const double held = page_ns_[(holder * rows_.size() + row) * bins_.count + bin];
  return static_cast<std::uint8_t>(std::clamp(std::ceil(held / all * 255 - 0.01), 0.0, 255.0));
}

std::size_t ResidencyMap::holder_of(std::uint16_t places) const {
  return std::popcount(places) > 1 ? processors_
                                   : static_cast<std::size_t>(std::countr_zero(places));
}

void ResidencyMap::settle(std::size_t row, std::uint64_t time_ns) {
  const std::uint64_t since = since_[row];
  if (time_ns <= since) return;
  since_[row] = time_ns;
  for (std::size_t holder = 0; holder < holders(); ++holder) {
    const std::uint32_t pages = pages_[row * holders() + holder];
    if (pages == 0) continue;
    float* const page_ns = &page_ns_[(holder * rows_.size() + row) * bins_.count];
    bins_.for_parts(since, time_ns, [&](std::size_t bin, std::uint64_t ns) {
      page_ns[bin] += static_cast<float>(pages) * static_cast<float>(ns);
    });
  }
}

}  // namespace wherry::report
