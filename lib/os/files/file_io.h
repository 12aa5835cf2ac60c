// Synchronous operations by the calling thread: copies between a file and memory, copies between
// memory that may be unmapped, and the creation of a mapping's pages. They return the number of
// bytes done (0 for populate() and merge_pages()), or -errno: -EFAULT if there is no such memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace wherry::impl {

[[nodiscard]] int read_at(int fd, std::uint64_t offset, std::span<std::byte> into);
[[nodiscard]] int write_at(int fd, std::uint64_t offset, std::span<const std::byte> from);
[[nodiscard]] int copy_memory(std::span<std::byte> into, std::span<const std::byte> from);
[[nodiscard]] int populate(std::span<std::byte> pages);
// Has Linux replace the file's pages that are mapped at `pages` (2 MiB) by one huge page with the
// same contents (MADV_COLLAPSE). Takes up to 1 ms. Linux changes nothing if a userfaultfd tracks a
// hole among them. Returns -EAGAIN or -EBUSY if a page is in use elsewhere, -EINVAL before Linux
// 6.1.
[[nodiscard]] int merge_pages(std::span<std::byte> pages);

// The whole pages that contain the bytes.
[[nodiscard]] std::span<std::byte> pages_around(std::span<const std::byte> memory);
// Returns whether all of this memory is present. False if a read would wait for a file or for swap,
// or if the memory is not mapped.
[[nodiscard]] bool is_at_hand(std::span<const std::byte> memory);
// Returns whether none of this memory, which is mapped from a file, is in the file. Pages that
// Linux has swapped out count as absent. Unlike SEEK_DATA it does not wait for writes to the file.
[[nodiscard]] bool is_absent(std::span<const std::byte> memory);
// Faults the memory in. Ignores pages that cannot be read.
void fetch(std::span<const std::byte> memory);

}  // namespace wherry::impl
