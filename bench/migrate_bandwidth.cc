// How fast do faults move pages between the host and a device, compared with the bare sequence of
// kernel calls?
#include <fmt/core.h>

#include <cstdlib>

#include "bare_migration.h"
#include "managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 10;
constexpr std::size_t bytes = std::size_t{128} << 20;

struct DeviceTouch {
  std::byte* memory;
  std::size_t stride;
  double* elapsed_ns;
  int cpu;
};

// The same loop as in the bare device. It is timed inside the kernel, so that the launch is not
// included.
void touch_kernel(const void* args, std::size_t, std::size_t) {
  const DeviceTouch& touch = *static_cast<const DeviceTouch*>(args);
  pin_to_allowed_cpu(touch.cpu);
  *touch.elapsed_ns = timed_touch(touch.memory, bytes, touch.stride);
}

Measurements measure(std::size_t region, const char* name) {
  ::setenv("WHERRY_FAULT_REGION", name, 1);
  ::setenv("WHERRY_DEVICES", "capacity=1G,workers=1", 1);
  allowed_cpus();
  // Fork the bare device process first, while this program has one thread.
  const BareMigration bare{bytes, region};
  init_cuda();
  pin_to_allowed_cpu(0);

  std::byte* const memory = alloc_managed(bytes);
  auto* const elapsed_ns = reinterpret_cast<double*>(alloc_managed(sizeof(double)));
  const auto touch_at_device = [&] {
    run_on_device(touch_kernel, DeviceTouch{memory, region, elapsed_ns, 0});
    return *elapsed_ns;
  };
  timed_touch(memory, bytes, 4096);

  std::vector<double> to_device, to_host, bare_to_device, bare_to_host;
  const auto run_ours = [&] {
    to_device.push_back(bytes / touch_at_device());
    to_host.push_back(bytes / timed_touch(memory, bytes, region));
  };
  const auto run_bare = [&] {
    bare_to_device.push_back(bytes / bare.touch_at_device());
    bare_to_host.push_back(bytes / bare.touch_at_host());
  };
  for (int run = -1; run < runs; ++run) {
    // The second run profits from pages that the first one left in the CPU caches, so the order
    // alternates.
    if (run % 2 == 0) {
      run_ours();
      run_bare();
    } else {
      run_bare();
      run_ours();
    }
    if (run >= 0) continue;
    for (auto* warm_up : {&to_device, &to_host, &bare_to_device, &bare_to_host}) warm_up->clear();
  }
  free_managed(memory);

  Measurements results;
  const auto add = [&](const char* direction, const std::vector<double>& ours,
                       const std::vector<double>& baseline) {
    results.push_back({fmt::format("{} {}", name, direction), median(ours), "GB/s", {}, {}});
    results.push_back(
        {fmt::format("{} {}, bare sequence", name, direction), median(baseline), "GB/s", {}, {}});
    results.push_back({fmt::format("{} {}, ratio", name, direction),
                       median(ours) / median(baseline),
                       "x",
                       {},
                       0.9});
  };
  add("host to device", to_device, bare_to_device);
  add("device to host", to_host, bare_to_host);
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all = measure_in_child([] { return measure(std::size_t{64} << 10, "64K"); });
  for (Measurement& next : measure_in_child([] { return measure(std::size_t{2} << 20, "2M"); })) {
    all.push_back(std::move(next));
  }
  return print_report("migrate_bandwidth: pages moved by faults", all, json);
}
