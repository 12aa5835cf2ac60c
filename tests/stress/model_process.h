// Runs a case of the model test in a process of its own, watches it, and shortens a case that
// fails.
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
  std::size_t operation = 0;  // of the script: none that failed is a later one
  std::uint64_t operations = 0;
  std::uint64_t migrated = 0, evicted = 0, duplicated = 0, collapsed = 0, remote = 0;
};

// A process in which nothing happens for `patience`, while this one runs, hangs: then the failure
// holds the stacks of all its threads, and it is killed.
CaseResult run_in_process(const Case& drawn, std::chrono::seconds patience);

// The same failure, or another one, with as few operations as can be found in that time.
Case shortened(const Case& drawn, const CaseResult& failed, std::chrono::seconds time);

}  // namespace wherry::test
