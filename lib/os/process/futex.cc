#include "os/process/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ctime>

namespace wherry::impl {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4 &&
              std::atomic<std::uint32_t>::is_always_lock_free);

void futex_wait(const std::atomic<std::uint32_t>& word, std::uint32_t expected, int limit_ms) {
  const timespec limit{limit_ms / 1000, limit_ms % 1000 * 1'000'000L};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &limit, nullptr, 0);
}

void futex_wait_ns(const std::atomic<std::uint32_t>& word, std::uint32_t expected,
                   std::chrono::nanoseconds limit) {
  constexpr std::int64_t second = 1'000'000'000;
  const timespec time{limit.count() / second, limit.count() % second};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, expected, &time, nullptr, 0);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) {
  ::syscall(SYS_futex, &word, FUTEX_WAKE, count, nullptr, nullptr, 0);
}

}  // namespace wherry::impl
