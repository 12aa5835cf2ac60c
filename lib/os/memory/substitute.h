// Memory that will replace other memory: mapped elsewhere, and moved to its destination part by
// part, each part atomically for threads that use the destination meanwhile. The destructor unmaps
// what has not been moved.
#pragma once

#include <cstddef>
#include <cstdint>

#include "os/memory/mapping.h"

namespace wherry::impl {

class Substitute {
 public:
  // Maps part of a file, shared, or private zeroed memory if `fd` is -1. Both are writable, and
  // inherited by fork(). Throws std::system_error.
  Substitute(std::size_t bytes, int fd, std::uint64_t offset);
  Substitute(const Substitute&) = delete;
  Substitute& operator=(const Substitute&) = delete;
  ~Substitute();

  // The part that moves next.
  std::byte* data() const { return start_; }
  // Moves the first `bytes` of the remaining memory to `address`, replacing what is mapped there,
  // with this access. Allocates nothing. Returns 0, or an errno with nothing changed.
  [[nodiscard]] int move_to(std::uintptr_t address, std::size_t bytes, Access access);
  // Discards the first `bytes` of the remaining memory.
  void skip(std::size_t bytes);

 private:
  std::byte* start_;
  std::size_t bytes_;
};

}  // namespace wherry::impl
