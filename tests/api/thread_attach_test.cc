// Threads of the program that count as a coherent device: what the functions answer.
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <functional>
#include <thread>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::thread_attach_test {
namespace {

// Device 0 is isolated. All CPUs of this machine's nodes count as device 1 or as the host.
constexpr const char* devices = "capacity=16M,workers=1;capacity=16M,workers=1,kind=coherent";

const Session& session() {
  static const Session the_session(devices);
  return the_session;
}

struct Answer {
  CUdevice device = -7;
  int by_cpu = -7;
  bool operator==(const Answer&) const = default;
};
constexpr Answer unattached{CU_DEVICE_CPU, 0};
constexpr Answer second{1, 0};

Answer mine() {
  Answer answer;
  WHERRY_TRY(wherryThreadDevice(&answer.device, &answer.by_cpu));
  return answer;
}

Answer of_new_thread(const std::function<void()>& first = [] {}) {
  Answer answer;
  std::thread([&] {
    first();
    answer = mine();
  }).join();
  return answer;
}

}  // namespace

// Before the library is initialized in this process.
TEST_CASE("without a coherent device no thread can be attached by CPU", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    const Session isolated("capacity=16M");
    expect(wherryThreadAttachByCpu() == CUDA_ERROR_NOT_SUPPORTED, "attached");
    expect(wherryThreadAttach(0) == CUDA_ERROR_NOT_SUPPORTED, "attached to device 0");
    expect(mine() == unattached, "counts as a device");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a child of an attached thread is not attached, and its parent stays so", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    const Session fresh(devices);
    for (const bool by_cpu : {false, true}) {
      WHERRY_TRY(by_cpu ? wherryThreadAttachByCpu() : wherryThreadAttach(1));
      const pid_t child = ::fork();
      if (child == 0) {
        CUdevice device = -7;
        expect(wherryThreadDevice(&device, nullptr) == CUDA_ERROR_NOT_INITIALIZED, "a device");
        expect(wherryThreadDetach() == CUDA_ERROR_NOT_INITIALIZED, "detached");
        expect(wherryThreadAttach(1) == CUDA_ERROR_NOT_INITIALIZED, "attached");
        expect(wherryThreadAttachByCpu() == CUDA_ERROR_NOT_INITIALIZED, "attached by CPU");
        // exit() also runs the destructors of this thread's thread-local variables.
        std::exit(0);
      }
      int status = -1;
      expect(::waitpid(child, &status, 0) == child && status == 0, "the child failed");
      expect(mine().by_cpu == (by_cpu ? 1 : 0), "the parent's attachment changed");
      expect(by_cpu || mine() == second, "the parent is not attached");
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a thread attaches to a coherent device and detaches, once", "[api]") {
  session();
  CHECK(mine() == unattached);
  CHECK(wherryThreadDetach() == CUDA_ERROR_INVALID_VALUE);
  CHECK(wherryThreadAttach(1) == CUDA_SUCCESS);
  CHECK(mine() == second);
  CHECK(of_new_thread() == unattached);
  CHECK(wherryThreadAttach(1) == CUDA_SUCCESS);
  CHECK(wherryThreadDetach() == CUDA_SUCCESS);
  CHECK(mine() == unattached);
  CHECK(wherryThreadDetach() == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("only coherent devices can be attached to, and a refusal changes nothing", "[api]") {
  session();
  REQUIRE(wherryThreadAttach(1) == CUDA_SUCCESS);
  CHECK(wherryThreadAttach(0) == CUDA_ERROR_NOT_SUPPORTED);
  for (const CUdevice invalid : {-2, -1, 2, 99})
    CHECK(wherryThreadAttach(invalid) == CUDA_ERROR_INVALID_DEVICE);
  CHECK(wherryThreadDevice(nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CUdevice device = -7;
  CHECK(wherryThreadDevice(&device, nullptr) == CUDA_SUCCESS);
  CHECK(device == 1);
  CHECK(wherryThreadDetach() == CUDA_SUCCESS);
}

TEST_CASE("attaching by CPU replaces an attachment to a device, and is replaced by one", "[api]") {
  session();
  REQUIRE(wherryThreadAttach(1) == CUDA_SUCCESS);
  REQUIRE(wherryThreadAttachByCpu() == CUDA_SUCCESS);
  const Answer by_cpu = mine();
  CHECK(by_cpu.by_cpu == 1);
  CHECK((by_cpu.device == 1 || by_cpu.device == CU_DEVICE_CPU));
  REQUIRE(wherryThreadAttach(1) == CUDA_SUCCESS);
  CHECK(mine() == second);
  REQUIRE(wherryThreadAttachByCpu() == CUDA_SUCCESS);
  CHECK(wherryThreadDetach() == CUDA_SUCCESS);
  CHECK(mine() == unattached);
}

TEST_CASE("threads that end while they are attached leave nothing to later ones", "[api]") {
  session();
  for (int i = 0; i < 50; ++i) {
    REQUIRE(of_new_thread([] { WHERRY_TRY(wherryThreadAttach(1)); }) == second);
    REQUIRE(of_new_thread([] { WHERRY_TRY(wherryThreadAttachByCpu()); }).by_cpu == 1);
    REQUIRE(of_new_thread() == unattached);
  }
}

TEST_CASE("a scope attaches its thread, and restores what was before", "[api]") {
  session();
  const wherry::device coherent(1);
  {
    const wherry::attached outer(coherent);
    CHECK(mine() == second);
    {
      const wherry::attached inner(wherry::by_cpu);
      CHECK(mine().by_cpu == 1);
      {
        const wherry::attached innermost(coherent);
        CHECK(mine() == second);
      }
      CHECK(mine().by_cpu == 1);
    }
    CHECK(mine() == second);
    const wherry::device isolated(0);
    try {
      const wherry::attached refused(isolated);
      FAIL("attached");
    } catch (const wherry::error& error) {
      CHECK(error.code() == CUDA_ERROR_NOT_SUPPORTED);
    }
    CHECK(mine() == second);
  }
  CHECK(mine() == unattached);
}

}  // namespace wherry::test::thread_attach_test
