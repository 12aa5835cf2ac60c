#include "report.h"

#include <fmt/core.h>
#include <numa.h>
#include <sched.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>

namespace wherry::bench {
namespace {

using nlohmann::json;

std::string cpu_model() {
  std::ifstream file{"/proc/cpuinfo"};
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) return line.substr(line.find(": ") + 2);
  }
  return "unknown";
}

json machine() {
  utsname names{};
  ::uname(&names);
  const long long pages = ::sysconf(_SC_PHYS_PAGES);
  return {{"cpu", cpu_model()},
          {"cpus", allowed_cpus().size()},
          {"memory_mib", pages * ::sysconf(_SC_PAGESIZE) >> 20},
          {"nodes", numa_available() < 0 ? 1 : numa_num_configured_nodes()},
          {"kernel", fmt::format("{} {}", names.sysname, names.release)}};
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

double read_clock(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

Measurements measure_in_child(const std::function<Measurements()>& measure) {
  int ends[2];
  if (::pipe(ends) != 0) fail("pipe");
  const pid_t child = ::fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    ::close(ends[0]);
    json results = json::array();
    for (const Measurement& measurement : measure()) results.push_back(to_json(measurement));
    write_all(ends[1], results.dump());
    ::close(ends[1]);
    std::exit(0);
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
  const json machine_facts = machine();
  if (as_json) {
    json results = json::array();
    for (const Measurement& measurement : measurements) results.push_back(to_json(measurement));
    fmt::print("{}\n",
               json{{"bench", title}, {"machine", machine_facts}, {"results", results}}.dump(2));
    return 0;
  }
  fmt::print("{}\n  {}, {} CPUs, {} MiB, {} NUMA node(s), {}\n\n", title,
             machine_facts["cpu"].get<std::string>(), machine_facts["cpus"].get<int>(),
             machine_facts["memory_mib"].get<long>(), machine_facts["nodes"].get<int>(),
             machine_facts["kernel"].get<std::string>());
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

double percentile(std::vector<double> values, double fraction) {
  const auto rank = std::min(
      values.size() - 1, static_cast<std::size_t>(fraction * static_cast<double>(values.size())));
  const auto place = values.begin() + static_cast<std::ptrdiff_t>(rank);
  std::nth_element(values.begin(), place, values.end());
  return *place;
}

double median(std::vector<double> values) {
  return percentile(std::move(values), 0.5);
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

double median_ratio(const std::vector<double>& values, const std::vector<double>& baselines) {
  std::vector<double> ratios(values.size());
  std::transform(values.begin(), values.end(), baselines.begin(), ratios.begin(), std::divides<>());
  return median(ratios);
}

double now_ns() {
  return read_clock(CLOCK_MONOTONIC);
}

double cpu_ns() {
  return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

const std::vector<int>& allowed_cpus() {
  // Read only once: a thread that has pinned itself would get its one CPU.
  static const std::vector<int> result = [] {
    cpu_set_t set;
    CPU_ZERO(&set);
    if (::sched_getaffinity(0, sizeof set, &set) != 0) fail("sched_getaffinity");
    std::vector<int> cpus;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
    }
    return cpus;
  }();
  return result;
}

void pin_to_allowed_cpu(int index) {
  const std::vector<int>& cpus = allowed_cpus();
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpus[static_cast<std::size_t>(index) % cpus.size()], &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) fail("sched_setaffinity");
}

void fail(const std::string& what) {
  fmt::print(stderr, "{}: {}\n", what, std::strerror(errno));
  std::exit(1);
}

}  // namespace wherry::bench
