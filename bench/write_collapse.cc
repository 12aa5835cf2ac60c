// What does it cost the host to write to pages of which devices hold copies, compared with the bare
// kernel calls that end the copies?
#include <fmt/core.h>

#include <cstdlib>

#include "bare_collapse.h"
#include "managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 10;
constexpr std::size_t page = 4096;

struct Case {
  const char* name;
  const char* region;  // the region that one write makes writable
  std::size_t region_bytes;
  std::size_t stride;
};

constexpr std::size_t bytes = std::size_t{64} << 20;
// Each write is a fault of its own, far from the previous one: pages have a minimum residency,
// which also covers their neighbours in 64 KiB.
constexpr Case single_page{"single page", "4K", page, 16 * page};
// One fault also covers the neighbours: the default configuration.
constexpr Case sequential{"sequential writer", "64K", 16 * page, page};

struct DeviceRead {
  const std::byte* memory;
  std::size_t stride;
};

void read_kernel(const void* args, std::size_t, std::size_t) {
  const DeviceRead& read = *static_cast<const DeviceRead*>(args);
  for (std::size_t offset = 0; offset < bytes; offset += read.stride) {
    [[maybe_unused]] const auto value =
        *const_cast<const volatile std::byte*>(read.memory + offset);
  }
}

Measurements measure(const Case& what, int devices) {
  ::setenv("WHERRY_FAULT_REGION", what.region, 1);
  ::setenv("WHERRY_DEVICES", "capacity=1G,workers=1;capacity=1G,workers=1", 1);
  allowed_cpus();
  // Fork the bare device processes first, while this program has one thread.
  const BareCollapse bare{bytes, what.stride, what.region_bytes, devices};
  init_cuda();
  pin_to_allowed_cpu(0);

  std::byte* const memory = alloc_managed(bytes);
  timed_touch(memory, bytes, what.stride);
  advise(memory, bytes, CU_MEM_ADVISE_SET_READ_MOSTLY, host_location);
  const auto duplicate = [&] {
    for (int device = 0; device < devices; ++device) {
      use_device(device);
      run_on_device(read_kernel, DeviceRead{memory, what.stride});
    }
  };

  const double pages = static_cast<double>(bytes / what.stride);
  std::vector<double> ours, baseline;
  const auto run_ours = [&] {
    duplicate();
    ours.push_back(timed_touch(memory, bytes, what.stride) / 1e3 / pages);
  };
  const auto run_bare = [&] {
    bare.duplicate();
    baseline.push_back(bare.write() / 1e3 / pages);
  };
  const wherryProcessorStats before = stats().processor[0];
  for (int run = -1; run < runs; ++run) {
    if (run % 2 == 0) {
      run_ours();
      run_bare();
    } else {
      run_bare();
      run_ours();
    }
    if (run >= 0) continue;  // the first run warms up
    ours.clear();
    baseline.clear();
  }
  const wherryProcessorStats after = stats().processor[0];
  free_managed(memory);

  const std::string name =
      fmt::format("{}, {} on {}", what.name, devices == 1 ? "copy" : "copies",
                  devices == 1 ? "1 device" : fmt::format("{} devices", devices));
  const double collapsed = static_cast<double>(after.collapsed - before.collapsed);
  const double faults =
      static_cast<double>(after.faults_write_protect - before.faults_write_protect);
  return {{name, median(ours), "us/page", {}, {}},
          {name + ", bare sequence", median(baseline), "us/page", {}, {}},
          {name + ", ratio", median_ratio(ours, baseline), "x", 1.5, {}},
          {name + ", pages a fault", collapsed / faults, "", {}, {}}};
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  Measurements all;
  for (const Case& what : {single_page, sequential}) {
    for (const int devices : {1, 2}) {
      for (Measurement& next : measure_in_child([&] { return measure(what, devices); })) {
        all.push_back(std::move(next));
      }
    }
  }
  return print_report("write_collapse: writes to pages that devices have copies of", all, json);
}
