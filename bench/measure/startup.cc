#include "measure/startup.h"

#include <cstdlib>

#include "measure/managed.h"
#include "measure/timing.h"

namespace wherry::bench {

StartupTimes measure_startup() {
  ::setenv("WHERRY_DEVICES", "capacity=1G;capacity=1G", 1);
  const double init_ns = ns_of([] { require(cuInit(0), "cuInit"); });
  use_device(0);
  std::byte* memory = nullptr;
  const double allocation_ns = ns_of([&] { memory = alloc_managed(std::size_t{100} << 30); });
  free_managed(memory);
  return {init_ns / 1e6, allocation_ns / 1e6};
}

}  // namespace wherry::bench
