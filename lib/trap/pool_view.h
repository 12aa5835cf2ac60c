// The view that a process has of its arena: which files its addresses show. The calling process
// changes its own view.
//
// A view begins as a mapping of the pool's first file, inaccessible, as large as the arena. Parts
// of it are opened, once each, before the first page exists there: then they show the files that
// they belong to (pages/stripes.h). The functions allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/page.h"
#include "os/memory/mapping.h"
#include "pages/stripes.h"

namespace wherry::impl {

struct ViewOptions {
  int userfaultfd = -1;     // traps accesses to the view; -1 if another trap or none does
  bool huge_pages = false;  // see prepare_view()
};

// Maps these pages of the pool's first file from `start` on, in place of whatever is mapped there;
// inaccessible. Returns 0 or an errno.
[[nodiscard]] int map_first_file(std::uintptr_t start, PageSpan pages, const PoolFiles& pool,
                                 bool huge_pages);

// Maps these pages of the pool from `start` on, each with the file that it belongs to, in place of
// whatever is mapped there; inaccessible. `huge_pages`: see prepare_view(). Returns 0 or an errno.
[[nodiscard]] int map_pool_closed(std::uintptr_t start, PageSpan pages, const PoolFiles& pool,
                                  bool huge_pages);

// Opens these pages of the pool, which is mapped from `base` on. `accessible`: they may be accessed
// from now on; otherwise the trap gives access, by pages. Requires: no pool holds any of them.
// Returns 0 or an errno; a later call may repeat it.
[[nodiscard]] int open_pool_view(std::uintptr_t base, PageSpan pages, const PoolFiles& pool,
                                 const ViewOptions& options, bool accessible);

// Shows a part of `pool` at a place of the view, by replace_pool_view() with the pool's files.
[[nodiscard]] int show_pool(const FileView& view, const PoolFiles& pool,
                            const ViewOptions& options);

}  // namespace wherry::impl
