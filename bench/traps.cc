// What does a fault cost with each kind of trap: userfaultfd, userfaultfd in user mode only,
// mprotect, sigbus?
#include <fmt/core.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <thread>

#include "measure/managed.h"
#include "measure/touches.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 7;
constexpr std::size_t page = 4096;
constexpr std::size_t pages = 4096;
constexpr uid_t nobody = 65534;

struct Way {
  const char* name;
  const char* setting;  // WHERRY_TRAP
  bool unprivileged;
};
constexpr std::array<Way, 4> ways{{{"userfaultfd", "userfaultfd", false},
                                   {"user mode only", "userfaultfd", true},
                                   {"mprotect", "mprotect", false},
                                   {"sigbus", "sigbus", false}}};

// The median and the sum of the times of one write to each of `count` pages, in nanoseconds.
struct Touches {
  double median;
  double all;
};
Touches touch(std::byte* memory, std::size_t count) {
  const double begin = now_ns();
  const std::vector<double> each = timed_touches(memory, count, page);
  return {median(each), now_ns() - begin};
}

struct KernelArguments {
  std::byte* memory;
  double* median;  // null: not needed
};
void touch_on_device(const void* pointer, std::size_t, std::size_t) {
  const auto& arguments = *static_cast<const KernelArguments*>(pointer);
  const Touches touches = touch(arguments.memory, pages);
  if (arguments.median != nullptr) *arguments.median = touches.median;
}

Measurements measure_once(const Way& way) {
  ::setenv("WHERRY_TRAP", way.setting, 1);
  move_single_regions(page);
  ::setenv("WHERRY_DEVICES", "capacity=64M,workers=1", 1);
  if (way.unprivileged && ::geteuid() == 0) {
    if (::setresgid(nobody, nobody, nobody) != 0 || ::setresuid(nobody, nobody, nobody) != 0)
      fail("setresuid");
    ::prctl(PR_SET_DUMPABLE, 1);
  }
  init_cuda();
  auto* const on_device = reinterpret_cast<double*>(alloc_managed(page));
  // One round warms up.
  for (int round = 0; round < 2; ++round)
    free_managed([&] {
      std::byte* const warm = alloc_managed(pages * page);
      touch(warm, pages);
      run_on_device(touch_on_device, KernelArguments{warm, nullptr});
      return warm;
    }());
  std::byte* const memory = alloc_managed(pages * page);
  const Touches first = touch(memory, pages);
  run_on_device(touch_on_device, KernelArguments{memory, on_device});
  const Touches back = touch(memory, pages);
  run_on_device(touch_on_device, KernelArguments{memory, nullptr});
  const double start = now_ns();
  std::thread other([&] { touch(memory, pages / 2); });
  touch(memory + pages / 2 * page, pages / 2);
  other.join();
  const double moves_per_second = pages / ((now_ns() - start) / 1e9);
  return {
      {fmt::format("{}: first touch, p50", way.name), first.median / 1e3, "us", {}, {}},
      {fmt::format("{}: the host takes a page, p50", way.name), back.median / 1e3, "us", {}, {}},
      {fmt::format("{}: a device takes a page, p50", way.name), *on_device / 1e3, "us", {}, {}},
      {fmt::format("{}: two threads take pages", way.name), moves_per_second, "/s", {}, {}}};
}

// The kinds of traps take turns; the results are medians.
Measurements measure() {
  std::array<std::vector<Measurements>, ways.size()> all;
  for (int run = 0; run < runs; ++run)
    for (std::size_t i = 0; i < ways.size(); ++i)
      all[i].push_back(measure_in_child([&] { return measure_once(ways[i]); }));
  std::vector<Measurements> of_ways;
  for (const std::vector<Measurements>& of_way : all) of_ways.push_back(medians(of_way));
  Measurements results;
  for (std::size_t which = 0; which < of_ways[0].size(); ++which) {
    for (const Measurements& of_way : of_ways) {
      const Measurement& result = of_way[which];
      const double ratio = result.value / of_ways[0][which].value;
      results.push_back(result);
      results.push_back({result.name + ", of userfaultfd's", ratio, "x", {}, {}});
    }
  }
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  return print_report("traps: 4 KiB faults, medians of processes that take turns", measure(), json);
}
