// Which processor holds the memory of each row of addresses, in each part of the time. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "address_rows.h"
#include "page_places.h"
#include "time_bins.h"

namespace wherry::report {

class ResidencyMap {
 public:
  // `rows` must outlive this object.
  ResidencyMap(const AddressRows& rows, const TimeBins& bins, std::uint64_t page_bytes,
               std::size_t processors);

  // The page at this address is in other places from now on. `before`, `after`: a bit for each
  // processor. Calls must be in order of time. If pages of one row change at the same time, their
  // calls should come without other rows in between.
  void change(std::uint64_t time_ns, std::uint64_t address, std::uint16_t before,
              std::uint16_t after);
  // Takes the time until the end of the last bin into account.
  void end();

  // The number of holders: each processor, and a last one for pages of which several processors
  // have a copy.
  std::size_t holders() const { return processors_ + 1; }
  // How much of the row's memory the holder had in that time, on average: from 0 to 255.
  std::uint8_t share(std::size_t holder, std::size_t row, std::size_t bin) const;

 private:
  // The holder of a page that is at these processors. Requires: `places` is not 0.
  std::size_t holder_of(std::uint16_t places) const;
  // Adds the time since the row's last change.
  void settle(std::size_t row, std::uint64_t time_ns);

  const AddressRows& rows_;
  const TimeBins bins_;
  const std::uint64_t page_bytes_;
  const std::size_t processors_;
  std::vector<std::uint32_t> pages_;  // held now: by row, by holder
  std::vector<std::uint64_t> since_;  // by row: the time of its last change
  std::vector<float> page_ns_;        // pages times nanoseconds: by holder, by row, by bin
  AddressRows::Row last_{0, {0, 0}};  // the row of the last change
  std::uint64_t last_time_ns_ = 0;
};

}  // namespace wherry::report
