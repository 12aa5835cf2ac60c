// Copies between a file and memory, or between memory that need not exist, and the creation of a
// mapping's pages, by the calling thread. Those return the bytes done (populate: 0), or -errno:
// -EFAULT where there is no such memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

[[nodiscard]] int read_at(int fd, std::uint64_t offset, std::span<std::byte> into);
[[nodiscard]] int write_at(int fd, std::uint64_t offset, std::span<const std::byte> from);
[[nodiscard]] int copy_memory(std::span<std::byte> into, std::span<const std::byte> from);
// Whether the limit on the size of files permits a write up to there; beyond it a signal would end
// the program.
[[nodiscard]] bool may_write_to(std::uint64_t end);
[[nodiscard]] int populate(std::span<std::byte> pages);

// The whole pages that the bytes lie in.
[[nodiscard]] std::span<std::byte> pages_around(std::span<const std::byte> memory);
// Whether Linux has all of this memory at hand: false where a read would wait for a file or for
// swap, or where there is no memory.
[[nodiscard]] bool is_at_hand(std::span<const std::byte> memory);
// Brings the memory, from wherever it is. What cannot be brought stays away.
void fetch(std::span<const std::byte> memory);

}  // namespace wherry::impl
