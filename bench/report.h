// The output of every benchmark: the machine that it ran on, then one line for each number, or one
// JSON object.
//
// Numbers are measured in one process per configuration (measure_in_child), because the library
// reads its environment once. The parent process prints them. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/timing.h"

namespace wherry::bench {

struct Measurement {
  std::string name;
  double value = 0;
  std::string unit;
  // The goal, if there is one.
  std::optional<double> at_most;
  std::optional<double> at_least;

  bool meets_goal() const {
    return (!at_most || value <= *at_most) && (!at_least || value >= *at_least);
  }
};

using Measurements = std::vector<Measurement>;

// The median of each measurement, from several runs that measured the same things in the same
// order. Requires: not empty.
Measurements medians(const std::vector<Measurements>& runs);

// Runs `measure` in a forked child and returns its measurements. If the child fails, this program
// ends with its status.
Measurements measure_in_child(const std::function<Measurements()>& measure);

// Prints the machine and the numbers, as text or with `json` as one object. Returns the exit status
// 0. A missed goal is marked but is not an error.
int print_report(const std::string& title, const Measurements& measurements, bool json);

// Returns true for --json. Exits with a usage line if an argument is unknown.
bool parse_json_flag(int argc, char** argv);

}  // namespace wherry::bench
