// The names that the program gave to ranges of addresses. Where ranges overlap, the newest name
// counts. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

namespace wherry::tool {

class RangeNames {
 public:
  struct Range {
    std::uint64_t end = 0;
    std::string_view name;
  };

  // A range that extends past the last address ends there. `name` must outlive this object.
  void set(std::uint64_t start, std::uint64_t bytes, std::string_view name);
  void forget(std::uint64_t start, std::uint64_t bytes);
  // Empty if the address has no name.
  std::string_view at(std::uint64_t address) const;
  // By start address; ranges do not overlap.
  const std::map<std::uint64_t, Range>& all() const { return ranges_; }

 private:
  // Splits the range that contains `address` into two.
  void split(std::uint64_t address);

  std::map<std::uint64_t, Range> ranges_;
};

// The address after the range, at most UINT64_MAX.
std::uint64_t end_of(std::uint64_t start, std::uint64_t bytes);

}  // namespace wherry::tool
