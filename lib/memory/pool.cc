#include "memory/pool.h"

#include <chrono>
#include <thread>

#include "os/fd.h"
#include "os/numa.h"
#include "os/permissions.h"

namespace wherry::impl {

MemoryPoolFile::MemoryPoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted)
    : file_(name, arena_bytes, wanted),
      alias_(Mapping::file_alias(file_.fd(), arena_bytes, block_size)),
      filler_(Userfaultfd::create(permissions().userfaultfd()), /*raises_sigbus=*/true) {
  if (const int error = filler_.register_missing(alias_.address(), alias_.size()))
    throw_errno(error, "cannot register " + name + " with userfaultfd");
}

int MemoryPoolFile::punch(PageSpan span) {
  // While somebody reads a huge page Linux cannot take it apart: it only clears what was to go.
  constexpr int attempts_max = 200;
  constexpr std::chrono::microseconds pause{20};
  const bool in_part = file_.has_huge_pages() && span.count % pages_per_block != 0;
  for (int attempt = 0;; ++attempt) {
    const int error = file_.punch(span.offset(), span.bytes());
    if (error != 0 || !in_part || attempt == attempts_max ||
        !holds_pages(alias(span.first), span.bytes()))
      return error;
    std::this_thread::sleep_for(pause);
  }
}

OpResult MemoryPoolFile::fill(PageSpan span, const std::byte* source) {
  return filler_.copy(address(span), source, span.bytes(), /*write_protected=*/false);
}

OpResult MemoryPoolFile::fill_zero(PageSpan span) {
  return filler_.zero(address(span), span.bytes());
}

void MemoryPoolFile::move_to_node(PageSpan span, int node) {
  // The kernel moves what this process maps: looks at each page through the reading view.
  for (std::uint64_t page = span.first; page < span.end(); ++page)
    (void)*const_cast<const volatile std::byte*>(alias(page));
  impl::move_to_node(alias(span.first), span.count, page_size, node);
}

}  // namespace wherry::impl
