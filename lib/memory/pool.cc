#include "memory/pool.h"

#include "base/check.h"
#include "os/fd.h"
#include "os/numa.h"

namespace wherry::impl {

MemoryPoolFile::MemoryPoolFile(const std::string& name, std::size_t arena_bytes, HugePages wanted)
    : file_(name, arena_bytes, wanted),
      alias_(Mapping::file_alias(file_.fd(), arena_bytes, block_size)),
      filler_(Userfaultfd::create(Userfaultfd::probe_access()), /*raises_sigbus=*/true) {
  if (const int error = filler_.register_missing(alias_.address(), alias_.size()))
    throw_errno(error, "cannot register " + name + " with userfaultfd");
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

void EvictionQueue::push(std::uint64_t block) {
  const auto place = static_cast<std::uint32_t>(block + 1);
  const LockGuard guard(lock_);
  links(place) = {tail_, 0};
  if (tail_ != 0) {
    links(tail_).next = place;
  } else {
    head_ = place;
  }
  tail_ = place;
}

void EvictionQueue::remove(std::uint64_t block) {
  const auto place = static_cast<std::uint32_t>(block + 1);
  const LockGuard guard(lock_);
  const QueueLinks old = links(place);
  WHERRY_CHECK(old.previous != 0 || head_ == place, "block {} is not queued", block);
  if (old.previous != 0) {
    links(old.previous).next = old.next;
  } else {
    head_ = old.next;
  }
  if (old.next != 0) {
    links(old.next).previous = old.previous;
  } else {
    tail_ = old.previous;
  }
  links(place) = {};
}

std::optional<std::uint64_t> EvictionQueue::oldest() const {
  const LockGuard guard(lock_);
  if (head_ == 0) return std::nullopt;
  return head_ - 1;
}

}  // namespace wherry::impl
