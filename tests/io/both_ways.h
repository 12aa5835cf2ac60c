// Runs a body twice, each time in a process of its own: with what this machine allows, and with
// userfaultfd for user mode only.
#pragma once

#include <functional>

#include "support/catch.h"
#include "support/child.h"
#include "support/seccomp_filter.h"

namespace wherry::test {

inline void in_both_ways(const std::function<void()>& body, int limit_ms = 120'000) {
  for (const bool restricted : {false, true}) {
    const Outcome outcome = in_fresh_process(
        [&] {
          if (restricted) leave_user_mode_only_userfaultfd();
          body();
        },
        limit_ms);
    INFO((restricted ? "for user mode only: " : "as allowed: ") << outcome.describe());
    CHECK(outcome.passed());
  }
}

}  // namespace wherry::test
