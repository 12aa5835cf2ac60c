// Records which addresses a program has used, in bounded memory: if there are too many gaps, small
// gaps count as used. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace wherry::report {

struct Extent {
  std::uint64_t begin = 0, end = 0;

  std::uint64_t bytes() const { return end - begin; }
  bool operator==(const Extent&) const = default;
};

class AddressExtents {
 public:
  // `page_bytes`: a power of two. Keeps at most `extents_max` extents.
  AddressExtents(std::uint64_t page_bytes, std::size_t extents_max)
      : grain_(page_bytes), extents_max_(extents_max) {}

  // Adds the pages of the range. Neighbours become one extent.
  void add(std::uint64_t address, std::uint64_t bytes);
  // Returns at most `extents_max` extents, by address. They do not touch.
  std::vector<Extent> take(std::size_t extents_max);

 private:
  void insert(Extent extent);
  void coarsen();

  std::uint64_t grain_;  // extents begin and end at multiples of it
  const std::size_t extents_max_;
  std::map<std::uint64_t, std::uint64_t> ends_;  // by begin
  Extent last_;                                  // that contains the range added last
};

}  // namespace wherry::report
