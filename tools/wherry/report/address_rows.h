// The rows of a picture of memory: which addresses each row stands for. A row has addresses of one
// name. Immutable; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "address_extents.h"
#include "range_names.h"

namespace wherry::report {

// Neighbouring addresses of one name.
struct Segment {
  Extent extent;
  std::string name;  // empty if it has none
  std::size_t first_row = 0;
  std::size_t rows = 0;
  std::uint64_t row_bytes = 0;  // of each row but the last

  bool operator==(const Segment&) const = default;
};

class AddressRows {
 public:
  // About `rows` rows, and at most two more for each of the `segments_max` segments. If names would
  // make more segments, they do not divide extents; if there are still more, the smallest ones have
  // no rows.
  AddressRows(std::span<const Extent> extents, const tool::RangeNames& names,
              std::uint64_t page_bytes, std::size_t rows, std::size_t segments_max);

  struct Row {
    std::size_t number;
    Extent extent;
  };
  // The row of this address; nullopt if it has none.
  std::optional<Row> find(std::uint64_t address) const;
  Extent extent_of(std::size_t row) const;
  std::size_t size() const { return size_; }
  // Ordered by address.
  const std::vector<Segment>& segments() const { return segments_; }
  // The bytes of segments without rows.
  std::uint64_t bytes_left_out() const { return bytes_left_out_; }

 private:
  void keep_largest(std::size_t segments_max);

  std::vector<Segment> segments_;
  std::size_t size_ = 0;
  std::uint64_t bytes_left_out_ = 0;
};

}  // namespace wherry::report
