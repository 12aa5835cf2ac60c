// How long do copies between host memory and device memory take, compared with memcpy between host
// memory?
#include <fmt/core.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "measure/managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

struct Size {
  const char* name;
  std::size_t bytes;
  int calls;  // calls per timed run
  int runs;
};
constexpr Size sizes[] = {{"4 KiB", std::size_t{4} << 10, 500, 15},
                          {"1 MiB", std::size_t{1} << 20, 20, 15},
                          {"256 MiB", std::size_t{256} << 20, 1, 7}};

Measurements measure() {
  ::setenv("WHERRY_DEVICES", "capacity=1G", 1);
  init_cuda();
  const std::size_t most = sizes[std::size(sizes) - 1].bytes;
  std::vector<std::byte> source(most, std::byte{1});
  std::vector<std::byte> target(most, std::byte{2});
  CUdeviceptr device = 0;
  require(cuMemAlloc(&device, most), "cuMemAlloc");
  std::byte* const managed = alloc_managed(most);
  std::memset(managed, 1, most);

  Measurements results;
  for (const Size& size : sizes) {
    const auto time = [&](const auto& call) {
      const double start = now_ns();
      for (int i = 0; i < size.calls; ++i) call();
      return (now_ns() - start) / size.calls;
    };
    const auto plain = [&] {
      return time([&] {
        std::memcpy(target.data(), source.data(), size.bytes);
        asm volatile("" : : "r"(target.data()) : "memory");
      });
    };
    const auto managed_address = reinterpret_cast<CUdeviceptr>(managed);
    const auto to_device = [&] {
      return time(
          [&] { require(cuMemcpyHtoD(device, source.data(), size.bytes), "cuMemcpyHtoD"); });
    };
    const auto to_host = [&] {
      return time(
          [&] { require(cuMemcpyDtoH(target.data(), device, size.bytes), "cuMemcpyDtoH"); });
    };
    const auto to_managed = [&] {
      return time([&] {
        require(cuMemcpyHtoD(managed_address, source.data(), size.bytes), "cuMemcpyHtoD");
      });
    };
    const auto fill = [&] {
      return time([&] {
        require(cuMemsetD8(device, 3, size.bytes), "cuMemsetD8");
        require(cuCtxSynchronize(), "cuCtxSynchronize");
      });
    };
    std::vector<double> memcpys, downs, ups, manageds, fills;
    for (int run = -1; run < size.runs; ++run) {
      memcpys.push_back(plain());
      downs.push_back(to_device());
      ups.push_back(to_host());
      manageds.push_back(to_managed());
      fills.push_back(fill());
      if (run >= 0) continue;
      for (auto* warm_up : {&memcpys, &downs, &ups, &manageds, &fills}) warm_up->clear();
    }
    const auto add = [&](const char* what, const std::vector<double>& times) {
      results.push_back({fmt::format("{} {}", what, size.name), median(times) / 1e3, "us", {}, {}});
    };
    const auto add_ratio = [&](const char* what, const std::vector<double>& times) {
      add(what, times);
      // The ratio of bandwidths: larger is better.
      results.push_back({fmt::format("{} {}, of memcpy", what, size.name),
                         1 / median_ratio(times, memcpys),
                         "x",
                         {},
                         {}});
    };
    add("memcpy", memcpys);
    add_ratio("host to device", downs);
    add_ratio("device to host", ups);
    add_ratio("host to managed memory there", manageds);
    add_ratio("fill of device memory, and a wait", fills);
  }
  free_managed(managed);
  require(cuMemFree(device), "cuMemFree");
  return results;
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  return print_report("copies: medians, and ratios to memcpy in the same run",
                      measure_in_child(measure), json);
}
