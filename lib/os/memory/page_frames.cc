#include "os/memory/page_frames.h"

#include <fcntl.h>
#include <unistd.h>

#include "os/kernel_abi.h"

namespace wherry::impl {
namespace {

// Bits of /proc/kpageflags (Linux's admin-guide/mm/pagemap.rst).
constexpr std::uint64_t flag_compound_head = std::uint64_t{1} << 15;
constexpr std::uint64_t flag_compound_tail = std::uint64_t{1} << 16;

std::optional<std::uint64_t> read_word(int fd, std::uint64_t index) {
  std::uint64_t word = 0;
  const ssize_t got = ::pread(fd, &word, sizeof word, static_cast<off_t>(index * sizeof word));
  return got == sizeof word ? std::optional(word) : std::nullopt;
}

}  // namespace

PageFrames::PageFrames() : flags_(::open("/proc/kpageflags", O_RDONLY | O_CLOEXEC)) {}

std::optional<PageFrames::Place> PageFrames::place_of(std::uintptr_t page) const {
  if (!flags_) return std::nullopt;
  const auto entry = page_table_.entry_of(page);
  // Linux reports the frame 0 to those who may not see frame numbers.
  if (!entry || (*entry & abi::entry_is_present) == 0 || (*entry & abi::entry_frame) == 0)
    return std::nullopt;
  const auto flags = read_word(flags_.get(), *entry & abi::entry_frame);
  if (!flags) return std::nullopt;
  if ((*flags & flag_compound_tail) != 0) return Place::further;
  return (*flags & flag_compound_head) != 0 ? Place::first : Place::alone;
}

}  // namespace wherry::impl
