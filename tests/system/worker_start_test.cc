// A device whose threads do not run. This happens to programs with an allocator that is not
// prepared for fork(): the device has a copy of a lock that another thread of the host held.
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>

#include "support/child.h"
#include "support/session.h"

namespace {

std::atomic<bool> workers_hang{false};

}  // namespace

// Every worker calls this function first.
extern "C" int pthread_setname_np(pthread_t, const char* name) {
  while (workers_hang.load() && std::strcmp(name, "wherry-dev0-1") == 0) ::pause();
  return 0;
}

namespace wherry::test {
namespace {

TEST_CASE("cuInit fails, and leaves no device, if a device's workers do not run", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capacity=4M,workers=2", 1);
    workers_hang.store(true);
    expect(cuInit(0) == CUDA_ERROR_OPERATING_SYSTEM, "cuInit does not report the failure");
    workers_hang.store(false);
    // The program may try again.
    const Session session{"capacity=4M,workers=2"};
    const Managed<int> number{1};
    session.run(0, [to = number.data()] { *to = 42; });
    expect(number[0] == 42, "a kernel did not run");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err.find("an allocator that is not prepared for fork") != std::string::npos);
}

}  // namespace
}  // namespace wherry::test
