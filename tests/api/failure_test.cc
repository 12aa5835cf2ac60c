// Errors that a program gets when a kernel or a device process fails.
#include <signal.h>
#include <sys/wait.h>
#include <wherry/cuda.h>
#include <wherry/wherry.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <future>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/busy.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::failure_test {

using namespace std::chrono_literals;

namespace {

// The address is in a variable, because the compiler refuses a constant one. Without the attribute
// the sanitizer would report the access before Linux does.
__attribute__((no_sanitize("undefined"))) void touch(std::uintptr_t address) {
  const volatile std::uintptr_t where = address;
  *reinterpret_cast<volatile int*>(where) = 1;
}

// Counts the lines that the library wrote. In a build with a sanitizer, the sanitizer writes lines
// of its own when a kernel crashes.
int lines_of_ours(const std::string& text) {
  int lines = 0;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines += line.starts_with("wherry: ") ? 1 : 0;
  return lines;
}

// A longer wait counts as a hang; the documented limit is one second.
constexpr auto limit = 10s;

CUresult wait_for_failure(const Session& s, int device) {
  const auto start = std::chrono::steady_clock::now();
  const CUresult result = s.wait(device);
  expect(std::chrono::steady_clock::now() - start < limit, "the failure was noticed late");
  return result;
}

// Checks that every call that works on the current context returns `wanted`.
void expect_everywhere(const Session& s, int device, CUresult wanted) {
  const auto call = [&](const char* name, CUresult result) {
    expect(result == wanted,
           std::string(name) + " answered " + name_of(result) + ", not " + name_of(wanted));
  };
  CUdeviceptr pointer = 0;
  std::size_t size = 0;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  WHERRY_TRY(cuCtxSetCurrent(s.context(device)));
  call("cuCtxSynchronize", cuCtxSynchronize());
  call("cuStreamSynchronize", cuStreamSynchronize(s.stream(device)));
  call("cuStreamQuery", cuStreamQuery(s.stream(device)));
  call("cuStreamCreate", cuStreamCreate(&stream, 0));
  call("cuMemAllocManaged", cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL));
  call("cuMemGetInfo", cuMemGetInfo(&size, &size));
  call("cuLaunchHostFunc", cuLaunchHostFunc(
                               s.stream(device), [](void*) {}, nullptr));
  call("cuStreamAddCallback", cuStreamAddCallback(
                                  s.stream(device), [](CUstream, CUresult, void*) {}, nullptr, 0));
  call("cuEventCreate", cuEventCreate(&event, 0));
  call("wherryLaunchKernel",
       wherryLaunchKernel(
           s.stream(device), [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 1));
  WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
}

template <typename Kernel>
Outcome run_bad_kernel(CUresult wanted, const Kernel& kernel) {
  return in_fresh_process([wanted, kernel] {
    Session s("capacity=64M;capacity=64M");
    const Managed<int> memory(1000);
    for (int i = 0; i < 1000; ++i) memory[i] = i;
    s.run(0, [data = memory.data()] { data[0] = 7; });
    s.launch(0, 1, [kernel](std::size_t) { kernel(); });
    const CUresult result = wait_for_failure(s, 0);
    expect(result == wanted, "the wait answered " + name_of(result));
    expect_everywhere(s, 0, wanted);

    // The host and the other device go on with the memory that the failed device had written.
    expect(memory[0] == 7 && memory[999] == 999, "memory was lost");
    s.run(1, [data = memory.data()] { data[1] = 8; });
    expect(memory[1] == 8, "the other device stopped working");

    const pid_t before = device_process(0);
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    expect(device_process(0) != before, "the device process was not replaced");
    expect(cuStreamQuery(s.stream(0)) == CUDA_ERROR_INVALID_HANDLE, "a stream survived");
    s.renew_stream(0);
    s.run(0, [data = memory.data()] { data[2] = data[0] + data[1]; });
    expect(memory[2] == 15, "the reset device does not work");
  });
}

void check_line(const Outcome& outcome, const std::string& reason) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("device 0") &&
                              Catch::Matchers::ContainsSubstring("run_bad_kernel") &&
                              Catch::Matchers::ContainsSubstring(reason));
  // The library reports the failure in exactly one line.
  CHECK(lines_of_ours(outcome.err) == 1);
}

}  // namespace

TEST_CASE("a kernel that accesses memory outside its device's reach is an illegal address",
          "[api]") {
  SECTION("an unmapped address") {
    check_line(run_bad_kernel(CUDA_ERROR_ILLEGAL_ADDRESS, [] { touch(0x123450); }), "0x123450");
  }
  SECTION("the null pointer") {
    check_line(run_bad_kernel(CUDA_ERROR_ILLEGAL_ADDRESS, [] { touch(0); }), "0x0");
  }
}

TEST_CASE("a kernel that ends its process in another way is a failed launch", "[api]") {
  SECTION("by throwing") {
    check_line(
        run_bad_kernel(CUDA_ERROR_LAUNCH_FAILED, [] { throw std::runtime_error("out of ideas"); }),
        "out of ideas");
  }
  SECTION("by aborting") {
    check_line(run_bad_kernel(CUDA_ERROR_LAUNCH_FAILED, [] { std::abort(); }), "signal 6");
  }
  SECTION("by an arithmetic error") {
    check_line(run_bad_kernel(CUDA_ERROR_LAUNCH_FAILED, [] { ::raise(SIGFPE); }), "signal 8");
  }
  SECTION("by exiting") {
    check_line(run_bad_kernel(CUDA_ERROR_LAUNCH_FAILED, [] { std::exit(3); }), "exit(3)");
  }
}

TEST_CASE("a killed device process fails the threads that wait for it, busy or idle", "[api]") {
  const bool busy = GENERATE(true, false);
  const Outcome outcome = in_fresh_process([busy] {
    Session s("capacity=64M;capacity=64M");
    const Managed<std::atomic<int>> flags(2);
    if (busy) {
      s.launch(0, 1, [flags = flags.data()](std::size_t) {
        flags[0] = 1;
        while (flags[1] == 0) std::this_thread::sleep_for(1ms);
      });
      while (flags[0] == 0) std::this_thread::sleep_for(1ms);
    }
    std::thread killer([] {
      std::this_thread::sleep_for(50ms);
      ::kill(device_process(0), SIGKILL);
    });
    CUresult result = CUDA_SUCCESS;
    const auto start = std::chrono::steady_clock::now();
    while (result == CUDA_SUCCESS && std::chrono::steady_clock::now() - start < limit) {
      result = s.wait(0);
    }
    killer.join();
    expect(result == CUDA_ERROR_LAUNCH_FAILED, "the wait answered " + name_of(result));
    expect_everywhere(s, 0, CUDA_ERROR_LAUNCH_FAILED);
    expect_everywhere(s, 1, CUDA_SUCCESS);
    CUcontext context = nullptr;
    expect(cuCtxCreate(&context, nullptr, 0, 0) == CUDA_ERROR_LAUNCH_FAILED,
           "a context was created on a dead device");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    WHERRY_TRY(cuCtxCreate(&context, nullptr, 0, 0));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("killed"));
}

TEST_CASE("contexts that share a device share its failure, each with its own error", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session s("capacity=64M");
    CUcontext other = nullptr;
    CUstream other_stream = nullptr;
    WHERRY_TRY(cuCtxCreate(&other, nullptr, 0, 0));
    WHERRY_TRY(cuStreamCreate(&other_stream, CU_STREAM_NON_BLOCKING));
    WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
    s.launch(0, 1, [](std::size_t) { touch(0x10); });
    expect(wait_for_failure(s, 0) == CUDA_ERROR_ILLEGAL_ADDRESS, "the culprit");
    expect(cuStreamSynchronize(other_stream) == CUDA_ERROR_LAUNCH_FAILED, "the bystander");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    s.renew_stream(0);
    s.run(0, [] {});
    expect(cuStreamSynchronize(other_stream) == CUDA_ERROR_LAUNCH_FAILED, "for good");
    WHERRY_TRY(cuCtxDestroy(other));
    CUcontext fresh = nullptr;
    WHERRY_TRY(cuCtxCreate(&fresh, nullptr, 0, 0));
    WHERRY_TRY(cuCtxSynchronize());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("killing a device ends the waits for its events with the error, on other devices too",
          "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session s("capacity=64M;capacity=64M");
    const Managed<int> memory(1);
    memory[0] = 17;
    CUcontext other = nullptr;
    CUstream bystander = nullptr;
    WHERRY_TRY(cuCtxCreate(&other, nullptr, 0, 1));
    WHERRY_TRY(cuStreamCreate(&bystander, CU_STREAM_NON_BLOCKING));
    WHERRY_TRY(cuCtxSetCurrent(s.context(0)));
    CUevent event = nullptr;
    WHERRY_TRY(cuEventCreate(&event, 0));
    Busy busy(s.stream(0));
    busy.wait_until_begun();
    WHERRY_TRY(cuEventRecord(event, s.stream(0)));
    WHERRY_TRY(cuStreamWaitEvent(s.stream(1), event, 0));
    s.launch(1, 1, [word = memory.data()](std::size_t) { *word = 99; });

    auto thread = std::async(std::launch::async, [&] { return cuEventSynchronize(event); });
    auto stream = std::async(std::launch::async, [&] { return s.wait(1); });
    std::this_thread::sleep_for(20ms);
    ::kill(device_process(0), SIGKILL);
    const auto answer = [](std::future<CUresult>& wait, const char* whose) {
      expect(wait.wait_for(30s) == std::future_status::ready,
             std::string("no result for ") + whose);
      const CUresult result = wait.get();
      expect(result == CUDA_ERROR_LAUNCH_FAILED, std::string(whose) + ": " + name_of(result));
    };
    answer(thread, "the thread that waits for the event");
    answer(stream, "the stream of the other device");
    expect(cuEventQuery(event) == CUDA_ERROR_LAUNCH_FAILED, "the event does not return the error");
    expect(memory[0] == 17, "work behind the wait has run");

    // The other device and its other contexts are not affected.
    WHERRY_TRY(wherryLaunchKernel(
        bystander, [](const void*, std::size_t, std::size_t) {}, nullptr, 0, 1));
    WHERRY_TRY(cuStreamSynchronize(bystander));
    for (const int device : {0, 1}) {
      WHERRY_TRY(cuDevicePrimaryCtxReset(device));
      s.renew_stream(device);
      s.run(device, [word = memory.data()] { *word += 1; });
    }
    expect(memory[0] == 19, "a device does not work after the reset");
    expect(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE, "the event survived the reset");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("waited for an event"));
}

TEST_CASE("callbacks behind a failed kernel are called with its error", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session s("capacity=64M");
    static std::atomic<CUresult> told = CUDA_SUCCESS;
    const auto tell = [](CUstream, CUresult status, void*) { told = status; };
    s.launch(0, 1, [](std::size_t) { std::abort(); });
    // The kernel may have failed already: then the callback is refused.
    const CUresult added = cuStreamAddCallback(s.stream(0), tell, nullptr, 0);
    expect(s.wait(0) == CUDA_ERROR_LAUNCH_FAILED, "the wait returned another error");
    if (added != CUDA_SUCCESS) {
      expect(added == CUDA_ERROR_LAUNCH_FAILED, "the callback was refused with " + name_of(added));
      return;
    }
    for (int i = 0; i < 20'000 && told == CUDA_SUCCESS; ++i) {
      std::this_thread::sleep_for(1ms);
    }
    expect(told == CUDA_ERROR_LAUNCH_FAILED, "the callback got " + name_of(told));
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("host functions behind a failed kernel are not called", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session s("capacity=64M");
    static std::atomic<int> called = 0;
    const auto count = [](void*) { ++called; };
    WHERRY_TRY(cuLaunchHostFunc(s.stream(0), count, nullptr));
    s.launch(0, 1, [](std::size_t) {
      std::this_thread::sleep_for(50ms);
      touch(0x10);
    });
    WHERRY_TRY(cuLaunchHostFunc(s.stream(0), count, nullptr));
    expect(wait_for_failure(s, 0) == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    s.renew_stream(0);
    WHERRY_TRY(cuLaunchHostFunc(s.stream(0), count, nullptr));
    WHERRY_TRY(s.wait(0));
    expect(called == 2, "called " + std::to_string(called.load()) + " times");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a device can be reset again and again, also during its work", "[api]") {
  const Outcome outcome = in_fresh_process([] {
    Session s("capacity=64M");
    const Managed<int> memory(100'000);
    for (int round = 0; round < 10; ++round) {
      s.launch(0, memory.size(), [data = memory.data()](std::size_t i) { data[i] = 1; });
      WHERRY_TRY(cuDevicePrimaryCtxReset(0));
      s.renew_stream(0);
      s.launch(0, memory.size(), [data = memory.data(), round](std::size_t i) { data[i] = round; });
      WHERRY_TRY(s.wait(0));
      for (std::size_t i = 0; i < memory.size(); ++i) expect(memory[i] == round, "wrong contents");
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("staging memory is released however its stream ends", "[api]") {
  enum class End {
    work_done,
    stream_destroyed,
    kernel_failed,
    device_killed
  };
  const auto end =
      GENERATE(End::work_done, End::stream_destroyed, End::kernel_failed, End::device_killed);
  INFO(static_cast<int>(end));
  const Outcome outcome = in_fresh_process([end] {
    Session s("capacity=64M,workers=2");
    const std::vector<char> piece(1 << 20);
    // The staging memory has space for 32 pieces (runtime/runtime.h). A copier may hold two for a
    // moment after copying them. Each round uses the other 30: if a round did not give them back, a
    // call of the next round would wait.
    constexpr int pieces = 30;
    for (int round = 0; round < 3; ++round) {
      CUdeviceptr device = 0;
      WHERRY_TRY(cuMemAlloc(&device, piece.size()));
      CUstream stream = nullptr;
      WHERRY_TRY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
      Busy busy(stream);
      busy.wait_until_begun();
      for (int i = 0; i < pieces; ++i)
        WHERRY_TRY(cuMemcpyHtoDAsync(device, piece.data(), piece.size(), stream));
      expect(cuStreamQuery(stream) == CUDA_ERROR_NOT_READY, "a call blocked");
      switch (end) {
        case End::work_done:
          break;
        case End::stream_destroyed:
          WHERRY_TRY(cuStreamDestroy(stream));
          break;
        case End::kernel_failed:
          s.launch(0, 1, [](std::size_t) { touch(0x10); });
          expect(s.wait(0) == CUDA_ERROR_ILLEGAL_ADDRESS, "the kernel did not fail");
          break;
        case End::device_killed:
          ::kill(device_process(0), SIGKILL);
          expect(cuCtxSynchronize() == CUDA_ERROR_LAUNCH_FAILED, "the device did not fail");
          break;
      }
      busy.leave();
      if (end == End::kernel_failed || end == End::device_killed) {
        WHERRY_TRY(cuDevicePrimaryCtxReset(0));
        s.renew_stream(0);
      } else {
        WHERRY_TRY(cuCtxSynchronize());
        WHERRY_TRY(cuMemFree(device));
      }
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::failure_test
