// Runs a case of the model test in a process of its own, watches it, and shortens a failing case.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "stress/model_script.h"

namespace wherry::test {

struct CaseResult {
  std::optional<std::string> failure;
  bool hung = false;
  // The operation of the script up to which it ran; the failure is not later.
  std::size_t operation = 0;
  std::uint64_t operations = 0;
  std::uint64_t migrated = 0, evicted = 0, duplicated = 0, collapsed = 0, remote = 0;
};

// A process without progress for `patience`, while this process runs, hangs: then the failure holds
// the stacks of all its threads, and the process is killed.
CaseResult run_in_process(const Case& drawn, std::chrono::seconds patience);

// The shortest case found in that time that still fails, with the same failure or another one.
Case shortened(const Case& drawn, const CaseResult& failed, std::chrono::seconds time);

}  // namespace wherry::test
