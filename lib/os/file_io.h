// Copies between a file and memory, and the creation of a mapping's pages, by the calling thread. Each returns the bytes
// done (populate: 0), or -errno.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

[[nodiscard]] int read_at(int fd, std::uint64_t offset, std::span<std::byte> into);
[[nodiscard]] int write_at(int fd, std::uint64_t offset, std::span<const std::byte> from);
[[nodiscard]] int populate(std::span<std::byte> pages);

}  // namespace wherry::impl
