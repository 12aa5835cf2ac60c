// What every benchmark prints: the machine that the numbers belong to, then one line per number, or
// one JSON object.
//
// Numbers are collected in one process per configuration (measure_in_child), since the library
// reads its environment once; the parent prints. Single-threaded.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace wherry::bench {

struct Measurement {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<double> at_most;  // the goal, where there is one
  std::optional<double> at_least;

  bool meets_goal() const {
    return (!at_most || value <= *at_most) && (!at_least || value >= *at_least);
  }
};

using Measurements = std::vector<Measurement>;

// Of measurements that were made several times, of the same things in the same order: each with its
// median. Requires: not empty.
Measurements medians(const std::vector<Measurements>& runs);

// Runs `measure` in a forked child and returns what it measured; a child that fails ends this
// program with its status.
Measurements measure_in_child(const std::function<Measurements()>& measure);

// Prints machine and numbers for people, or with --json as one object on stdout. Returns the exit
// status: 0, or 2 for arguments that are not understood. A missed goal is marked, not an error: a
// benchmark reports.
int print_report(const std::string& title, const Measurements& measurements, bool json);

// True for --json; exits with a usage line when an argument is unknown.
bool parse_json_flag(int argc, char** argv);

// Requires: values not empty. The value below which `fraction` of the values lie.
double percentile(std::vector<double> values, double fraction);
double median(std::vector<double> values);
// Of values that were measured in pairs, one right after the other: what both suffered cancels out.
double median_ratio(const std::vector<double>& values, const std::vector<double>& baselines);

// Nanoseconds of CLOCK_MONOTONIC.
double now_ns();

// The CPUs that this program may use, as they were at the first call.
const std::vector<int>& allowed_cpus();
// Pins the calling thread to one of them, counted from 0 and around.
void pin_to_allowed_cpu(int index);

// Ends the program with a line that names `what` and errno.
[[noreturn]] void fail(const std::string& what);

}  // namespace wherry::bench
