// The bare first-touch loop: one registered mapping whose missing pages are filled with zeros,
// `granularity` bytes at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "measure/bare_trap.h"

namespace wherry::bench {

class BarePopulate {
 public:
  // bytes: a multiple of granularity, which is a multiple of 4096.
  BarePopulate(std::size_t bytes, std::size_t granularity)
      : granularity_(granularity), pool_(bytes), memory_(pool_.map()), uffd_(open_userfaultfd()) {
    register_range(uffd_, memory_, bytes);
    trap_.emplace(std::vector<int>{uffd_}, [this](std::size_t, std::uintptr_t address) {
      zero_pages(uffd_, address & ~(std::uintptr_t{granularity_} - 1), granularity_);
    });
  }

  std::byte* memory() const { return memory_; }
  // Removes all pages. Requires: no thread touches the memory.
  void clear() const { pool_.punch(0, pool_.bytes()); }

 private:
  std::size_t granularity_;
  BarePool pool_;
  std::byte* memory_;
  int uffd_;
  std::optional<BareTrap> trap_;
};

}  // namespace wherry::bench
