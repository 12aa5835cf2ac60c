// Devices whose threads do not run. This happens to programs with an allocator that is not prepared
// for fork(): the device has a copy of a lock that another thread of the host held.
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <new>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace {

// In memory that the program shares with its devices.
struct Hanging {
  std::atomic<const char*> name{nullptr};  // threads with this name hang
  std::atomic<int> left{0};                // as many of them
  std::atomic<bool> ends{false};           // they end their process instead
};

Hanging& hanging() {
  static auto* const shared = new (::mmap(nullptr, sizeof(Hanging), PROT_READ | PROT_WRITE,
                                          MAP_SHARED | MAP_ANONYMOUS, -1, 0)) Hanging;
  return *shared;
}

}  // namespace

// Replaces the C library's function, which every thread of a device calls first.
extern "C" int pthread_setname_np(pthread_t, const char* name) {
  const char* const wanted = hanging().name.load();
  if (wanted != nullptr && std::strcmp(name, wanted) == 0 && hanging().left.fetch_sub(1) > 0) {
    if (hanging().ends) ::kill(::getpid(), SIGKILL);
    for (;;) ::pause();
  }
  return 0;
}

namespace wherry::test {
namespace {

TEST_CASE("cuInit fails, and leaves no device, if a device's workers do not run", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capacity=4M,workers=2", 1);
    hanging().name = "wherry-dev0-1";
    hanging().left = 1;
    expect(cuInit(0) != CUDA_SUCCESS, "cuInit does not report the failure");
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

TEST_CASE("cuInit says by which signal a device ended while it started", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    ::setenv("WHERRY_DEVICES", "capacity=4M", 1);
    hanging().name = "wherry-trial";
    hanging().left = 1;
    hanging().ends = true;
    expect(cuInit(0) == CUDA_ERROR_OPERATING_SYSTEM, "cuInit does not report the failure");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err.find("ended while it started (signal 9)") != std::string::npos);
}

TEST_CASE("a device that hangs while it starts is replaced", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    hanging().name = "wherry-trial";
    hanging().left = 2;
    const Session session{"capacity=4M,workers=2"};
    expect(hanging().left < 0, "no device hung");
    const Managed<int> number{1};
    session.run(0, [to = number.data()] { *to = 42; });
    expect(number[0] == 42, "a kernel did not run");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::test
