#include "os/process/cpu_clock.h"

#include <cstdlib>
#include <fstream>
#include <string>

#include "os/arch/cpu.h"

namespace wherry::impl {
namespace {

constexpr int unknown_khz = 1'000'000;

// The current frequency. Used in virtual machines: they have no cpufreq, and their frequency does
// not change.
double mhz_in_cpuinfo() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("cpu MHz")) return std::strtod(line.c_str() + line.find(':') + 1, nullptr);
  return 0;
}

}  // namespace

int cpu_clock_khz() {
  if (const int khz = counter_khz(); khz > 0) return khz;
  int khz = 0;
  if (std::ifstream("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq") >> khz && khz > 0)
    return khz;
  khz = static_cast<int>(mhz_in_cpuinfo() * 1000);
  return khz > 0 ? khz : unknown_khz;
}

}  // namespace wherry::impl
