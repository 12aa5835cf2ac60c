// A named in-memory file (memfd), as pools use it: sparse, as large as the arena, holes punched
// page by page.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "os/fd.h"

namespace wherry::impl {

class MemoryFile {
 public:
  // Shows as /memfd:NAME in /proc/PID/maps and behind the descriptor. Throws std::system_error.
  MemoryFile(const std::string& name, std::size_t bytes);

  int fd() const { return fd_.get(); }
  // Frees the pages and removes them from every page table of every process. Returns 0 or an errno.
  [[nodiscard]] int punch(std::uint64_t offset, std::uint64_t bytes) const;
  // Pages that are created in this part of the file from now on lie on one of `nodes` if there is room. Through a
  // mapping that lives as long as the call: a lasting one would be split at the borders of every policy. Returns 0 or
  // an errno.
  [[nodiscard]] int prefer_nodes(std::uint64_t offset, std::uint64_t bytes,
                                 std::span<const int> nodes) const;
  // Bytes that the file really holds, as the kernel counts them.
  std::uint64_t allocated_bytes() const;
  void close() { fd_.reset(); }

 private:
  Fd fd_;
};

}  // namespace wherry::impl
