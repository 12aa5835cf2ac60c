// Where the memory of imported accesses lies in a trace: in one arena, whatever its addresses were.
//
// Memory keeps its place within a block of 2 MiB, and its distance to memory that is at most
// distance_max away: policies look at such neighbours. Longer gaps are left out, because a replay
// only numbers the blocks. Memory of several address spaces comes one after the other, because a
// trace has only one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/page.h"
#include "import/access_source.h"

namespace wherry::importing {

class SyntheticArena {
 public:
  static constexpr std::uint64_t base = std::uint64_t{1} << 44;
  static constexpr std::uint64_t distance_max = std::uint64_t{1} << 30;

  // Accessed pages, and what lies between them if that is less than a block: presumably one
  // allocation.
  struct Range {
    std::uint64_t space = 0;
    std::uint64_t first_page = 0;  // of the source
    std::uint64_t pages = 0;
    std::uint64_t address = 0;  // in the arena
  };

  explicit SyntheticArena(std::span<const Access> accesses);

  std::uint64_t bytes() const { return bytes_; }  // whole blocks
  // Ordered by space and address.
  const std::vector<Range>& ranges() const { return ranges_; }
  // The place of the access's first byte. Requires: the constructor was given this access.
  std::uint64_t address_of(const Access& access) const;

 private:
  void place();

  std::vector<Range> ranges_;
  std::uint64_t bytes_ = 0;
};

// The pages of the source that the access is to.
struct SourcePages {
  std::uint64_t first = 0;
  std::uint64_t end = 0;
};
constexpr SourcePages pages_of(const Access& access) {
  return {access.address / impl::page_size,
          (access.address + (access.bytes - 1)) / impl::page_size + 1};
}

}  // namespace wherry::importing
