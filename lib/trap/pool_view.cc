#include "trap/pool_view.h"

#include "os/memory/userfaultfd.h"

namespace wherry::impl {

int map_first_file(std::uintptr_t start, PageSpan pages, const PoolFiles& pool, bool huge_pages) {
  const int error = map_closed(start, {pool.fds.front(), pages.offset(), pages.bytes()});
  return error != 0 ? error : prepare_view(start, pages.bytes(), huge_pages);
}

int map_pool_closed(std::uintptr_t start, PageSpan pages, const PoolFiles& pool, bool huge_pages) {
  const int error = pool.stripes.for_each(pages, [&](unsigned file, PageSpan part) {
    return map_closed(start + (part.offset() - pages.offset()),
                      {pool.fds[file], part.offset(), part.bytes()});
  });
  return error != 0 ? error : prepare_view(start, pages.bytes(), huge_pages);
}

int open_pool_view(std::uintptr_t base, PageSpan pages, const PoolFiles& pool,
                   const ViewOptions& options, bool accessible) {
  const std::uintptr_t start = base + pages.offset();
  int error = 0;
  // The first file is mapped already.
  if (!pool.stripes.are_in_first_file(pages)) {
    error = map_pool_closed(start, pages, pool, options.huge_pages);
    if (error == 0 && options.userfaultfd >= 0)
      error = Userfaultfd::register_range(options.userfaultfd, start, pages.bytes());
  }
  if (error != 0 || !accessible) return error;
  return set_access(start, pages.bytes(), Access::write);
}

int show_pool(const FileView& view, const PoolFiles& pool, const ViewOptions& options) {
  const PageSpan pages{page_at_offset(view.offset), view.bytes / page_size};
  return pool.stripes.for_each(pages, [&](unsigned file, PageSpan part) {
    const std::uintptr_t start = view.start + (part.offset() - view.offset);
    return replace_pool_view({start, part.bytes(), part.offset()}, pool.fds[file],
                             options.userfaultfd, options.huge_pages);
  });
}

}  // namespace wherry::impl
