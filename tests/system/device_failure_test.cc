// A failing kernel affects only its own device: the error is sticky and names its cause, the host
// and the other devices go on, and after a reset the device works again on the unchanged memory.
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::device_failure_test {

// Kernels with external linkage, and not inlined: a log line must show their names.
struct Target {
  int* place;
};
void crash_at_address(const void*, std::size_t, std::size_t) {
  *reinterpret_cast<volatile int*>(std::uintptr_t{0x123450}) = 1;
}
void throw_exception(const void*, std::size_t, std::size_t) {
  throw std::runtime_error("no such luck");
}
void abort_kernel(const void*, std::size_t, std::size_t) {
  std::abort();
}
void exit_kernel(const void*, std::size_t, std::size_t) {
  std::exit(3);
}
void quick_exit_kernel(const void*, std::size_t, std::size_t) {
  ::_exit(0);
}
void divide_by_zero(const void*, std::size_t, std::size_t) {
  ::raise(SIGFPE);
}
void wait_forever(const void*, std::size_t, std::size_t) {
  for (;;) ::poll(nullptr, 0, 1000);
}
void touch_host_stack(const void* args, std::size_t, std::size_t) {
  *static_cast<const Target*>(args)->place = 1;
}

namespace {

constexpr const char* two_devices = "capacity=16M;capacity=16M";

CUresult run_raw(const Session& session, int device, wherryKernel kernel) {
  WHERRY_TRY(wherryLaunchKernel(session.stream(device), kernel, nullptr, 0, 1));
  return session.wait(device);
}

void expect_result(CUresult got, CUresult wanted, const std::string& what) {
  expect(got == wanted, what + ": " + name_of(got) + " instead of " + name_of(wanted));
}

// Checks everything that must hold after `fail` has made device 0 fail with `wanted`.
void survive(CUresult wanted, const std::function<CUresult(const Session&)>& fail) {
  Session session{two_devices};
  constexpr std::size_t count = 100'000;
  const Managed<int> numbers{count};
  session.run(0, [to = numbers.data()] {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<int>(i);
  });
  const pid_t before = device_process(0);

  expect_result(fail(session), wanted, "the failing kernel");
  // The error is sticky: every call that works on this context returns it.
  expect_result(session.wait(0), wanted, "a second synchronization");
  expect_result(cuCtxSynchronize(), wanted, "cuCtxSynchronize");
  expect_result(wherryLaunchKernel(session.stream(0), wait_forever, nullptr, 0, 1), wanted,
                "a further launch");

  // Device 1 and the host go on, also with pages that were resident at the failed device.
  WHERRY_TRY(cuCtxSetCurrent(session.context(1)));
  const Managed<int> answer{1};
  session.run(1, [to = answer.data()] { *to = 42; });
  expect(answer[0] == 42, "device 1 was harmed");
  for (std::size_t i = 0; i < count / 2; ++i)
    expect(numbers[i] == static_cast<int>(i), "memory was lost with the failed device");

  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  session.renew_stream(0);
  expect(device_process(0) != before, "a reset did not start another process");
  expect(!is_running(before), "the old process still runs");
  const Managed<int> wrong{1};
  session.run(0, [from = numbers.data(), to = wrong.data()] {
    for (std::size_t i = 0; i < count; ++i) *to += from[i] != static_cast<int>(i) ? 1 : 0;
  });
  expect(wrong[0] == 0, "contents did not survive the reset");
}

Outcome survive_kernel(CUresult wanted, wherryKernel kernel) {
  return in_fresh_process([=] {
    survive(wanted, [kernel](const Session& session) { return run_raw(session, 0, kernel); });
  });
}

void check_log(const Outcome& outcome, const std::vector<std::string>& words) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
  for (const std::string& word : words) {
    INFO("looking for " << word);
    CHECK(outcome.err.find(word) != std::string::npos);
  }
}

TEST_CASE(
    "a kernel that segfaults is an illegal address; the message names kernel, device and address",
    "[system]") {
  check_log(survive_kernel(CUDA_ERROR_ILLEGAL_ADDRESS, crash_at_address),
            {"crash_at_address", "device 0", "0x123450"});
}

TEST_CASE("a kernel that throws fails its launch", "[system]") {
  check_log(survive_kernel(CUDA_ERROR_LAUNCH_FAILED, throw_exception),
            {"throw_exception", "device 0", "no such luck"});
}

TEST_CASE("a kernel that aborts fails its launch", "[system]") {
  check_log(survive_kernel(CUDA_ERROR_LAUNCH_FAILED, abort_kernel), {"abort_kernel", "device 0"});
}

TEST_CASE("a kernel that calls exit() fails its launch", "[system]") {
  check_log(survive_kernel(CUDA_ERROR_LAUNCH_FAILED, exit_kernel), {"device 0"});
}

TEST_CASE("a kernel that calls _exit() fails its launch", "[system]") {
  check_log(survive_kernel(CUDA_ERROR_LAUNCH_FAILED, quick_exit_kernel), {"device 0"});
}

TEST_CASE("a kernel that ends by another signal fails its launch", "[system]") {
  check_log(survive_kernel(CUDA_ERROR_LAUNCH_FAILED, divide_by_zero),
            {"divide_by_zero", "device 0"});
}

TEST_CASE("a kernel that accesses the host's stack is an illegal address", "[system]") {
  check_log(in_fresh_process([] {
              survive(CUDA_ERROR_ILLEGAL_ADDRESS, [](const Session& session) {
                // The stack of another thread, which did not exist when the device process was
                // forked.
                CUresult result = CUDA_SUCCESS;
                std::thread{[&] {
                  WHERRY_TRY(cuCtxSetCurrent(session.context(0)));
                  int local = 0;
                  const Target target{&local};
                  WHERRY_TRY(wherryLaunchKernel(session.stream(0), touch_host_stack, &target,
                                                sizeof target, 1));
                  result = session.wait(0);
                }}.join();
                return result;
              });
            }),
            {"touch_host_stack", "device 0"});
}

TEST_CASE("all threads that wait for a killed device get an error", "[system]") {
  check_log(in_fresh_process([] {
              survive(CUDA_ERROR_LAUNCH_FAILED, [](const Session& session) {
                WHERRY_TRY(wherryLaunchKernel(session.stream(0), wait_forever, nullptr, 0, 1));
                CUresult others = CUDA_SUCCESS;
                std::thread other{[&] {
                  WHERRY_TRY(cuCtxSetCurrent(session.context(0)));
                  others = cuCtxSynchronize();
                }};
                ::poll(nullptr, 0, 50);
                const auto killed = std::chrono::steady_clock::now();
                ::kill(device_process(0), SIGKILL);
                const CUresult mine = session.wait(0);
                other.join();
                // The documented limit is one second. The test allows more for a busy machine.
                expect(std::chrono::steady_clock::now() - killed < std::chrono::seconds{10},
                       "the waiting threads got the error too late");
                expect_result(others, CUDA_ERROR_LAUNCH_FAILED, "the other thread that waited");
                return mine;
              });
            }),
            {"device 0"});
}

TEST_CASE("a device that dies while idle is noticed at the next use", "[system]") {
  check_log(in_fresh_process([] {
              survive(CUDA_ERROR_LAUNCH_FAILED, [](const Session& session) {
                const pid_t device = device_process(0);
                ::kill(device, SIGKILL);
                expect(ends_within(device, 5000), "the device process does not end");
                const CUresult posted =
                    wherryLaunchKernel(session.stream(0), wait_forever, nullptr, 0, 1);
                return posted != CUDA_SUCCESS ? posted : session.wait(0);
              });
            }),
            {"device 0"});
}

TEST_CASE("a device that hangs while its view must change is ended, and nothing is lost",
          "[system]") {
  const Outcome outcome = in_fresh_process([] {
    Session session{two_devices};
    constexpr std::size_t count = 65'536;
    const Managed<int> numbers{count};
    for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<int>(i);
    const pid_t hanging = device_process(0);
    ::kill(hanging, SIGSTOP);
    // The hanging device cannot change its page table. Neither the advising thread nor the other
    // users of the memory wait for it.
    WHERRY_TRY(cuMemAdvise(reinterpret_cast<CUdeviceptr>(numbers.data()), numbers.bytes(),
                           CU_MEM_ADVISE_SET_ACCESSED_BY, {CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    session.run(1, [to = numbers.data()] {
      for (std::size_t i = 0; i < count; ++i) to[i] += 1;
    });
    expect(ends_within(hanging, 60'000), "the device is not ended");
    for (std::size_t i = 0; i < count; ++i)
      expect(numbers[i]++ == static_cast<int>(i) + 1, "a number was lost");
    const CUresult posted = wherryLaunchKernel(session.stream(0), wait_forever, nullptr, 0, 1);
    expect_result(posted != CUDA_SUCCESS ? posted : session.wait(0), CUDA_ERROR_LAUNCH_FAILED,
                  "the next launch on the ended device");
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    session.renew_stream(0);
    session.run(0, [to = numbers.data()] {
      for (std::size_t i = 0; i < count; ++i) to[i] += 1;
    });
    for (std::size_t i = 0; i < count; ++i)
      expect(numbers[i] == static_cast<int>(i) + 3, "a number was lost after the reset");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("a reset ends a kernel that runs forever", "[system]") {
  check_log(in_fresh_process([] {
              Session session{two_devices};
              WHERRY_TRY(wherryLaunchKernel(session.stream(0), wait_forever, nullptr, 0, 1));
              const pid_t before = device_process(0);
              WHERRY_TRY(cuDevicePrimaryCtxReset(0));
              session.renew_stream(0);
              expect(!is_running(before), "the old process still runs");
              const Managed<int> answer{1};
              session.run(0, [to = answer.data()] { *to = 42; });
              expect(answer[0] == 42, "the fresh device does not work");
            }),
            {});
}

TEST_CASE("both devices can fail and be reset again and again", "[system]") {
  check_log(in_fresh_process([] {
              Session session{two_devices};
              const Managed<int> number{1};
              for (int round = 0; round < 5; ++round) {
                for (int device = 0; device < 2; ++device) {
                  session.run(device, [to = number.data()] { ++*to; });
                  expect_result(run_raw(session, device, crash_at_address),
                                CUDA_ERROR_ILLEGAL_ADDRESS, "the crash");
                  WHERRY_TRY(cuDevicePrimaryCtxReset(device));
                  session.renew_stream(device);
                }
              }
              expect(number[0] == 10, "an increment was lost");
            }),
            {});
}

}  // namespace
}  // namespace wherry::test::device_failure_test
