// Managed memory that moves as a whole between the host and a device, for measurements: by a
// prefetch, or by a write to each page.
#pragma once

#include <cstdint>
#include <span>
#include <wherry/wherry.hpp>

namespace wherry::tool {

using Words = std::span<std::uint64_t>;
inline constexpr std::size_t page_words = 4096 / sizeof(std::uint64_t);

// Adds 1 to the first word of each page, in the calling thread.
void touch_on_host(Words words);
// The same with all workers of the stream's device. Waits.
void touch_on_device(Words words, stream& in);
// Waits until the pages are there.
void prefetch_and_wait(Words words, const location& where, const stream& in);

}  // namespace wherry::tool
