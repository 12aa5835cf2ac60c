// Memory that is about to take the place of other memory: mapped somewhere, and moved there part by
// part, each at once for threads that use the place meanwhile. What has not moved at the end is
// given up.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapping.h"

namespace wherry::impl {

class Substitute {
 public:
  // Part of a file, shared; fd -1: private memory, zero. Both writable, and inherited by fork().
  // Throws std::system_error.
  Substitute(std::size_t bytes, int fd, std::uint64_t offset);
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;
  ~Substitute();

  // What moves next.
  std::byte* data() const { return start_; }
  // Puts the first `bytes` of what is left in the place of what is at `address`, with this access.
  // Allocates nothing. Returns 0 or an errno, with nothing changed.
  [[nodiscard]] int move_to(std::uintptr_t address, std::size_t bytes, Access access);
  // Leaves out as much.
  void skip(std::size_t bytes);

 private:
  std::byte* start_;
  std::size_t bytes_;
};

}  // namespace wherry::impl
