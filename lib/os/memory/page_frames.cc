#include "os/memory/page_frames.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/page.h"

namespace wherry::impl {
namespace {

// Linux's documentation of pagemap and kpageflags (admin-guide/mm/pagemap.rst).
constexpr std::uint64_t entry_is_present = std::uint64_t{1} << 63;
constexpr std::uint64_t entry_frame = (std::uint64_t{1} << 55) - 1;
constexpr std::uint64_t flag_compound_head = std::uint64_t{1} << 15;
constexpr std::uint64_t flag_compound_tail = std::uint64_t{1} << 16;

std::optional<std::uint64_t> read_word(int fd, std::uint64_t index) {
  std::uint64_t word = 0;
  const ssize_t got = ::pread(fd, &word, sizeof word, static_cast<off_t>(index * sizeof word));
  return got == sizeof word ? std::optional(word) : std::nullopt;
}

}  // namespace

PageFrames::PageFrames()
    : pagemap_(::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)),
      flags_(::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC)) {}

std::optional<std::uint64_t> PageFrames::entry_of(std::uintptr_t page) const {
  return read_word(pagemap_.get(), page / page_size);
}

std::optional<bool> PageFrames::is_mapped(std::uintptr_t page) const {
  const auto entry = entry_of(page);
  if (!entry) return std::nullopt;
  return (*entry & entry_is_present) != 0;
}

std::optional<PageFrames::Place> PageFrames::place_of(std::uintptr_t page) const {
  if (!flags_) return std::nullopt;
  const auto entry = entry_of(page);
  // Linux reports the frame 0 to those who may not see frame numbers.
  if (!entry || (*entry & entry_is_present) == 0 || (*entry & entry_frame) == 0)
    return std::nullopt;
  const auto flags = read_word(flags_.get(), *entry & entry_frame);
  if (!flags) return std::nullopt;
  if ((*flags & flag_compound_tail) != 0) return Place::further;
  return (*flags & flag_compound_head) != 0 ? Place::first : Place::alone;
}

}  // namespace wherry::impl
