#include "report.h"

#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <nlohmann/json.hpp>

#include "measure/machine.h"

namespace wherry::bench {
namespace {

using nlohmann::json;

json machine() {
  const MachineFacts facts = machine_facts();
  return {{"cpu", facts.cpu},
          {"cpus", facts.cpus},
          {"memory_mib", facts.memory_mib},
          {"nodes", facts.nodes},
          {"kernel", facts.kernel}};
}

json to_json(const Measurement& measurement) {
  json result{{"name", measurement.name}, {"value", measurement.value}, {"unit", measurement.unit}};
  if (measurement.at_most) result["at_most"] = *measurement.at_most;
  if (measurement.at_least) result["at_least"] = *measurement.at_least;
  return result;
}

Measurement from_json(const json& value) {
  Measurement result{value.at("name"), value.at("value"), value.at("unit"), {}, {}};
  if (value.contains("at_most")) result.at_most = value.at("at_most").get<double>();
  if (value.contains("at_least")) result.at_least = value.at("at_least").get<double>();
  return result;
}

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (;;) {
    const ssize_t got = ::read(fd, buffer, sizeof buffer);
    if (got == 0) return text;
    if (got < 0 && errno != EINTR) fail("read from the measuring process");
    if (got > 0) text.append(buffer, static_cast<std::size_t>(got));
  }
}

void write_all(int fd, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t put = ::write(fd, text.data() + done, text.size() - done);
    if (put < 0 && errno != EINTR) fail("write to the parent");
    if (put > 0) done += static_cast<std::size_t>(put);
  }
}

// Measures and writes the results to `fd`, then ends the process.
[[noreturn]] void report_to(int fd, const std::function<Measurements()>& measure) {
  try {
    json results = json::array();
    for (const Measurement& measurement : measure()) results.push_back(to_json(measurement));
    write_all(fd, results.dump());
    ::close(fd);
  } catch (const std::exception& failure) {
    fmt::print(stderr, "{}\n", failure.what());
    std::exit(1);
  }
  std::exit(0);
}

}  // namespace

Measurements measure_in_child(const std::function<Measurements()>& measure) {
  int ends[2];
  if (::pipe(ends) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::close(ends[0]);
    report_to(ends[1], measure);
  }
  ::close(ends[1]);
  const std::string text = read_all(ends[0]);
  ::close(ends[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    fmt::print(stderr, "the measuring process failed (wait status {:#x})\n", status);
    std::exit(1);
  }
  Measurements measurements;
  for (const json& value : json::parse(text)) measurements.push_back(from_json(value));
  return measurements;
}

int print_report(const std::string& title, const Measurements& measurements, bool as_json) {
  const json facts = machine();
  if (as_json) {
    json results = json::array();
    for (const Measurement& measurement : measurements) results.push_back(to_json(measurement));
    fmt::print("{}\n", json{{"bench", title}, {"machine", facts}, {"results", results}}.dump(2));
    return 0;
  }
  fmt::print("{}\n  {}, {} CPUs, {} MiB, {} NUMA node(s), {}\n\n", title,
             facts["cpu"].get<std::string>(), facts["cpus"].get<int>(),
             facts["memory_mib"].get<long>(), facts["nodes"].get<int>(),
             facts["kernel"].get<std::string>());
  for (const Measurement& measurement : measurements) {
    std::string goal;
    if (measurement.at_most) goal = fmt::format("at most {}", *measurement.at_most);
    if (measurement.at_least) goal = fmt::format("at least {}", *measurement.at_least);
    if (!goal.empty())
      goal = fmt::format("  ({}: {})", goal, measurement.meets_goal() ? "met" : "MISSED");
    fmt::print("  {:<58} {:>12.4g} {}{}\n", measurement.name, measurement.value, measurement.unit,
               goal);
  }
  return 0;
}

bool parse_json_flag(int argc, char** argv) {
  bool as_json = false;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--json") != 0) {
      fmt::print(stderr, "usage: {} [--json]\n", argv[0]);
      std::exit(2);
    }
    as_json = true;
  }
  return as_json;
}

Measurements medians(const std::vector<Measurements>& runs) {
  Measurements results = runs.front();
  for (std::size_t i = 0; i < results.size(); ++i) {
    std::vector<double> values;
    for (const Measurements& one : runs) values.push_back(one[i].value);
    results[i].value = median(std::move(values));
  }
  return results;
}

}  // namespace wherry::bench
