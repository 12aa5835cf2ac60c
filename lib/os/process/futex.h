// Sleeping on a word of shared memory, between processes too. The word says what changed; callers
// look again after every return, whatever the reason for it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace wherry::impl {

// Sleeps while the word still holds `expected`, at most `limit_ms`.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int limit_ms);
void futex_wait_ns(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::chrono::nanoseconds limit);
// Wakes at most `count` sleepers.
void futex_wake(std::atomic<std::uint32_t>& word, int count);

}  // namespace wherry::impl
