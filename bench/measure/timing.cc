#include "measure/timing.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <cerrno>
#include <functional>
#include <system_error>

namespace wherry::bench {
namespace {

double read_clock(clockid_t clock) {
  timespec time{};
  ::clock_gettime(clock, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

}  // namespace

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
  // Read only once, because a thread that has pinned itself would see only its one CPU.
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
  throw std::system_error(errno, std::generic_category(), what);
}

}  // namespace wherry::bench
