// The range of addresses from which managed memory is allocated. It is reserved at the same address
// in every process, and each process maps its own pool there. The range is accessible from its base
// up to a limit that grows in large steps, so that the number of mappings does not grow with the
// number of allocations. Not thread-safe: its owner serializes the calls.
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
  // The larger of 1 TiB and 16 times the machine's memory, in whole GiB. Less than that if the
  // arena and the aliases of `processors` pools would not fit into half of the address space.
  static std::size_t default_size(std::uint64_t memory_bytes, int processors);

  // How many mappings as large as the arena this process has: the arena, the annex, and two aliases
  // of each pool.
  static std::uint64_t views(int processors) {
    return 2 * static_cast<std::uint64_t>(processors) + 2;
  }

  // The largest arena that, together with the aliases of that many pools, fits into half of the
  // address space.
  static std::size_t largest_size(int processors);

  // How many bytes of an arena are kept for pages that lie at addresses outside it.
  static std::size_t placed_bytes(std::size_t bytes);

  // Reserves the range and maps the host's pool over it, inaccessible. Throws std::system_error.
  Arena(std::size_t bytes, const SparsePoolFile& host_pool);

  ArenaLayout& layout() { return layout_; }
  const ArenaLayout& layout() const { return layout_; }

  // Number of accessible bytes from the base.
  std::size_t open_bytes() const { return open_bytes_; }
  // How many bytes must be open so that `needed` bytes from the base are accessible. nullopt: these
  // are accessible already.
  std::optional<std::size_t> next_open_bytes(std::size_t needed) const;
  // Makes the first `bytes` bytes of the host's view accessible. Returns 0 or an errno.
  [[nodiscard]] int open(std::size_t bytes);

 private:
  Mapping range_;
  ArenaLayout layout_;
  std::size_t open_bytes_ = 0;
};

}  // namespace wherry::impl
