// Managed memory that measurements move between the host and a device: by a prefetch, or by a write
// to each page.
#pragma once

#include <cstdint>
#include <span>
#include <wherry/wherry.hpp>

namespace wherry::tool {

using Words = std::span<std::uint64_t>;
inline constexpr std::size_t page_words = 4096 / sizeof(std::uint64_t);

// Adds 1 to each page's first word in the calling thread.
void touch_on_host(Words words);
// Adds 1 to each page's first word with all workers of the stream's device, and waits.
void touch_on_device(Words words, stream& in);
// Prefetches the words to `where`, and waits.
void prefetch_and_wait(Words words, const location& where, const stream& in);

}  // namespace wherry::tool
