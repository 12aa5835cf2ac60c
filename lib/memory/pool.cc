#include "memory/pool.h"

#include "base/check.h"

namespace wherry::impl {

MemoryPoolFile::MemoryPoolFile(const std::string& name, std::size_t arena_bytes)
    : file_(name, arena_bytes), alias_(Mapping::file_alias(file_.fd(), arena_bytes, block_size)) {}

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
