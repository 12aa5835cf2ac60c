// Shortens a failing script: removes operations as long as the script still fails.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wherry::test {

// Returns the shortest script found for which `fails` returns true, with at most `trials_max`
// calls. Removes stretches of operations, long ones first. Requires: `fails(script)`.
template <typename Operation, typename Predicate>
std::vector<Operation> shrink(std::vector<Operation> script, Predicate fails, int trials_max) {
  int trials = 0;
  for (std::size_t length = script.size() / 2; length != 0; length /= 2) {
    for (std::size_t first = 0; first < script.size();) {
      if (trials++ == trials_max) return script;
      std::vector<Operation> shorter = script;
      const std::size_t end = std::min(first + length, script.size());
      shorter.erase(shorter.begin() + static_cast<std::ptrdiff_t>(first),
                    shorter.begin() + static_cast<std::ptrdiff_t>(end));
      if (fails(shorter))
        script = std::move(shorter);
      else
        first = end;
    }
  }
  return script;
}

}  // namespace wherry::test
