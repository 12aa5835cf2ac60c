// How long do cuInit and a very large allocation take in a small program?
#include <cstdlib>

#include "managed.h"
#include "report.h"

namespace wherry::bench {
namespace {

constexpr int runs = 15;

// Measures one new process. Both times are in milliseconds.
Measurements measure_once() {
  ::setenv("WHERRY_DEVICES", "capacity=1G;capacity=1G", 1);
  const double start = now_ns();
  require(cuInit(0), "cuInit");
  const double initialized = now_ns();
  CUcontext context = nullptr;
  require(cuDevicePrimaryCtxRetain(&context, 0), "cuDevicePrimaryCtxRetain");
  require(cuCtxSetCurrent(context), "cuCtxSetCurrent");
  const double before_allocation = now_ns();
  std::byte* const memory = alloc_managed(std::size_t{100} << 30);
  const double allocated = now_ns();
  free_managed(memory);
  return {{"cuInit with 2 devices", (initialized - start) / 1e6, "ms", 50, {}},
          {"cuMemAllocManaged of 100 GiB", (allocated - before_allocation) / 1e6, "ms", 1, {}}};
}

Measurements measure() {
  measure_in_child(measure_once);  // warms the page cache
  std::vector<Measurements> each;
  for (int run = 0; run < runs; ++run) each.push_back(measure_in_child(measure_once));
  return medians(each);
}

}  // namespace
}  // namespace wherry::bench

int main(int argc, char** argv) {
  using namespace wherry::bench;
  const bool json = parse_json_flag(argc, argv);
  return print_report("startup: cuInit and a large allocation, medians of fresh processes",
                      measure(), json);
}
