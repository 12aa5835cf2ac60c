// Waiting on a word of shared memory, also between processes. Callers check the word again after
// every return, because waits may end spuriously.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace wherry::impl {

// Sleeps while the word holds `expected`, at most `limit_ms`.
void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int limit_ms);
void futex_wait_ns(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::chrono::nanoseconds limit);
// Wakes at most `count` sleepers.
void futex_wake(std::atomic<std::uint32_t>& word, int count);

}  // namespace wherry::impl
