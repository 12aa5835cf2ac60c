// The questions of `wherry bench all`: one table of what they mean and which function measures
// them. docs/benchmarks.md explains each.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "bench_figures.h"

namespace wherry::tool {

struct Question {
  std::string key;
  std::string text;
  std::string unit;
  bool less_is_better = true;
  std::string limit;  // how the limit is measured
  std::string peer;   // how the peer is measured, if there is one
};

// Questions that are measured in one process.
struct QuestionGroup {
  std::string name;
  std::vector<Question> questions;
  // Fills the figures of the questions. Throws std::exception. Requires: a process of its own, in
  // which the library has not been started.
  void (*measure)(const BenchScale& scale, std::span<Figures> figures);
  bool uses_large_memory = false;
};

inline constexpr std::size_t questions_of_group_max = 8;

std::vector<QuestionGroup> question_groups();

}  // namespace wherry::tool
