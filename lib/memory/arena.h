// The range of addresses from which managed memory is allocated. It is reserved at the same address
// in every process, and each process maps its own pool there (trap/pool_view.h). Pages are opened
// (made accessible) in large steps, so that the number of mappings does not grow with the number of
// allocations. Not thread-safe: its owner serializes the calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

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

  // How many bytes of an arena are kept for pages at addresses outside it (variables).
  static std::size_t placed_bytes(std::size_t bytes);

  // Reserves the range and maps the host's pool over it, inaccessible. Throws std::system_error.
  Arena(std::size_t bytes, const SparsePoolFile& host_pool);

  ArenaLayout& layout() { return layout_; }
  const ArenaLayout& layout() const { return layout_; }

  // The open pages.
  std::vector<PageSpan> open_pages() const;
  // Returns pages that must be opened before `needed` can be used; nullopt if those are open.
  std::optional<PageSpan> next_to_open(PageSpan needed) const;
  // Notes that the pages, which next_to_open() returned, are now open in all processes.
  void note_opened(PageSpan pages);

 private:
  // The striped part is opened in units of whole stripes. Returns the page's unit.
  PageSpan unit_of(PageIndex page) const;
  // The row (pages/arena_layout.h: all pages but those of variables) behind its striped part is
  // opened from the start on. Return how much of that is open, and how much will be if the page
  // before `end` is needed.
  PageSpan open_rest() const;
  PageSpan open_rest_until(PageIndex end) const;

  Mapping range_;
  ArenaLayout layout_;
  const PageIndex striped_end_;
  std::map<PageIndex, std::uint64_t> open_;  // first page -> number of pages
};

}  // namespace wherry::impl
