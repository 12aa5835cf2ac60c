// Retries for threads that wait until other threads are done with pages: until these have used
// reserved capacity, completed a transfer, or read Linux's fault messages.
#pragma once

#include <chrono>
#include <cstdint>
#include <thread>

#include "base/patience.h"
#include "os/memory/userfaultfd.h"

namespace wherry::impl {

inline constexpr std::uint64_t retry_limit_ns = 10'000'000'000;
inline constexpr auto retry_pause = std::chrono::microseconds(50);

// Calls attempt() until it returns a status other than incomplete. Returns true if that is ok,
// otherwise false; also false after retry_limit_ns.
template <typename Attempt>
bool retry_incomplete(const Attempt& attempt) {
  for (Patience patience(retry_limit_ns); !patience.is_over(); patience.note_wait()) {
    const OpStatus status = attempt();
    if (status != OpStatus::incomplete) return status == OpStatus::ok;
    std::this_thread::sleep_for(retry_pause);
  }
  return false;
}

}  // namespace wherry::impl
