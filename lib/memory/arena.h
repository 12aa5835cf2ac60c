// The range of addresses that managed memory comes from: reserved at one address in every process,
// where each maps its own pool. Accessible from the base up to a mark that moves in large steps, so
// mappings do not grow with allocations. Not thread-safe: its owner serializes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "memory/pool.h"
#include "os/memory/mapping.h"
#include "pages/arena_layout.h"

namespace wherry::impl {

class Arena {
 public:
  // The larger of 1 TiB and 16 times the machine's memory, whole GiB; less on machines so large
  // that the arena and the reading views of `processors` pools would not fit into half of the
  // address space.
  static std::size_t default_size(std::uint64_t memory_bytes, int processors);

  // The most that an arena and the reading views of so many pools may take of the address space.
  static std::size_t largest_size(int processors);

  // How much of an arena is kept for pages that lie elsewhere.
  static std::size_t placed_bytes(std::size_t bytes);

  // Reserves the range and maps the host's pool over it, inaccessible. Throws std::system_error.
  Arena(std::size_t bytes, const MemoryPoolFile& host_pool);

  ArenaLayout& layout() { return layout_; }
  const ArenaLayout& layout() const { return layout_; }

  // Bytes from the base that are accessible.
  std::size_t open_bytes() const { return open_bytes_; }
  // How far to open so that `needed` bytes from the base are accessible; nothing: far enough
  // already.
  std::optional<std::size_t> next_open_bytes(std::size_t needed) const;
  // Makes the host's view accessible up to there. Returns 0 or an errno.
  [[nodiscard]] int open(std::size_t bytes);

 private:
  Mapping range_;
  ArenaLayout layout_;
  std::size_t open_bytes_ = 0;
};

}  // namespace wherry::impl
