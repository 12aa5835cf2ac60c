#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "os/process/machine_names.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/test_device.h"
#include "support/witness.h"

namespace wherry::test::device_failure_test {

using Kind = impl::DeviceFailure::Kind;

// Not static and in a named namespace, because the test looks for its name.
void kernel_that_touches_nothing_good(const void*, std::size_t, std::size_t) {
  *reinterpret_cast<volatile int*>(0x1234) = 1;
}

namespace {

void local_kernel_that_traps(const void*, std::size_t, std::size_t) {
  __builtin_trap();
}

TEST_CASE("A kernel that accesses an unmapped address ends as illegal address, with its name") {
  TestArena arena;
  TestDevice device(arena);
  const auto id = device.post(kernel_that_touches_nothing_good, nullptr, 0, 1);
  const auto failure = device.wait(id);
  REQUIRE(failure);
  CHECK(failure->kind == Kind::illegal_address);
  CHECK(failure->signal == SIGSEGV);
  CHECK(failure->address == 0x1234);
  CHECK(failure->launch_id == id);
  CHECK(failure->kernel == reinterpret_cast<std::uintptr_t>(kernel_that_touches_nothing_good));
  CHECK_THAT(impl::describe_code_address(failure->kernel),
             Catch::Matchers::StartsWith(
                 "wherry::test::device_failure_test::kernel_that_touches_nothing_good"));
}

TEST_CASE("A kernel that is not exported is named too") {
  const auto address = reinterpret_cast<std::uintptr_t>(local_kernel_that_traps);
  CHECK_THAT(impl::describe_code_address(address),
             Catch::Matchers::ContainsSubstring("local_kernel_that_traps") &&
                 Catch::Matchers::ContainsSubstring("device_failure_test"));
  CHECK_THAT(impl::describe_code_address(address + 1),
             Catch::Matchers::ContainsSubstring("+0x1 ("));
  CHECK(impl::describe_code_address(16) == "0x10");
}

// SIGILL or SIGTRAP, depending on the processor.
int signal_of_trap() {
  static const int signal = in_fresh_process([] { __builtin_trap(); }).signal;
  return signal;
}

TEST_CASE("A trap, an abort and a division by zero end as that signal") {
  TestArena arena;
  const auto signal_of = [&](const std::optional<impl::DeviceFailure>& failure) {
    REQUIRE(failure);
    CHECK(failure->kind == Kind::signal);
    return failure->signal;
  };
  CHECK(signal_of(TestDevice(arena).run_once([] { std::abort(); })) == SIGABRT);
  CHECK(signal_of(TestDevice(arena).run_once([] { __builtin_trap(); })) == signal_of_trap());
  CHECK(signal_of(TestDevice(arena).run_once([] { ::raise(SIGFPE); })) == SIGFPE);
  CHECK(signal_of(TestDevice(arena).run_once([] { std::terminate(); })) == SIGABRT);
}

TEST_CASE("A signal that another process sends is not reported as an illegal address") {
  TestArena arena;
  TestDevice device(arena);
  REQUIRE(::kill(device.pid(), SIGSEGV) == 0);
  const auto failure = device.wait_for_end();
  CHECK(failure.kind == Kind::signal);
  CHECK(failure.signal == SIGSEGV);
  CHECK(failure.kernel == 0);
}

TEST_CASE("A page beyond the end of a truncated file ends as illegal address by SIGBUS") {
  TestArena arena;
  impl::MemoryFile file("wherry-test-short", 4096, impl::HugePages::never);
  void* mapped = ::mmap(nullptr, 8192, PROT_READ, MAP_SHARED, file.fd(), 0);
  REQUIRE(mapped != MAP_FAILED);
  TestDevice device(arena);
  const char* beyond = static_cast<const char*>(mapped) + 4096;
  const auto failure =
      device.run_once([beyond] { (void)*static_cast<const volatile char*>(beyond); });
  ::munmap(mapped, 8192);
  REQUIRE(failure);
  CHECK(failure->kind == Kind::illegal_address);
  CHECK(failure->signal == SIGBUS);
  CHECK(failure->address == reinterpret_cast<std::uintptr_t>(beyond));
}

int deep(int depth) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  return depth == 0 ? 0 : deep(depth - 1) + frame[0];
}

TEST_CASE("A stack overflow in a kernel is an illegal address, not a hang") {
  TestArena arena;
  TestDevice device(arena);
  const auto failure = device.run_once([] { deep(1 << 30); });
  REQUIRE(failure);
  CHECK(failure->kind == Kind::illegal_address);
}

TEST_CASE("A kernel that throws ends as exception, with its text") {
  TestArena arena;
  const auto text_of = [](const std::optional<impl::DeviceFailure>& failure) {
    REQUIRE(failure);
    CHECK(failure->kind == Kind::exception);
    return failure->what;
  };
  CHECK(text_of(TestDevice(arena).run_once([] { throw std::runtime_error("no convergence"); })) ==
        "no convergence");
  CHECK(text_of(TestDevice(arena).run_once([] { throw 42; })) == "an exception of type int");
  const std::string lengthy =
      text_of(TestDevice(arena).run_once([] { throw std::runtime_error(std::string(5000, 'x')); }));
  CHECK(lengthy == std::string(511, 'x'));
}

TEST_CASE("exit() in a kernel ends as exited, and runs none of the application's exit handlers") {
  const auto outcome = in_fresh_process([] {
    TestArena arena;
    std::atexit([] { static_cast<void>(!::write(STDOUT_FILENO, "handler\n", 8)); });
    TestDevice device(arena);
    const auto failure = device.run_once([] { std::exit(3); });
    if (!failure || failure->kind != Kind::exited || failure->signal != 3) std::abort();
  });
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out == "handler\n");  // the application's own handler ran
}

TEST_CASE("_exit() and pthread_exit() in a kernel end as exited") {
  TestArena arena;
  const auto at_once = TestDevice(arena).run_once([] { ::_exit(4); });
  REQUIRE(at_once);
  CHECK(at_once->kind == Kind::exited);
  CHECK(at_once->signal == 4);
  const auto thread = TestDevice(arena).run_once([] { ::pthread_exit(nullptr); });
  REQUIRE(thread);
  CHECK(thread->kind == Kind::exited);
}

TEST_CASE("A killed device is lost, and its process descriptor reports that at once") {
  TestArena arena;
  TestDevice device(arena);
  int* value = arena.take<int>(1);
  CHECK_FALSE(device.run_once([value] { *value = 7; }));
  REQUIRE(::kill(device.pid(), SIGKILL) == 0);
  const auto failure = device.wait_for_end();
  CHECK(failure.kind == Kind::lost);
  CHECK(failure.signal == SIGKILL);
  CHECK(device.process().open_arena(TestDevice::twice_open) == ESRCH);
  CHECK(*value == 7);
}

TEST_CASE("When many workers crash at once, one complete failure is reported") {
  TestArena arena;
  TestDevice device(arena, 0, 8);
  const auto failure =
      device.run(8, [](std::size_t i) { *reinterpret_cast<volatile int*>(0x1000 * (i + 1)) = 1; });
  REQUIRE(failure);
  CHECK(failure->kind == Kind::illegal_address);
  CHECK(failure->address % 0x1000 == 0);
  CHECK(failure->address >= 0x1000);
  CHECK(failure->address <= 0x8000);
}

TEST_CASE("One device's crash does not affect the others and the host") {
  TestArena arena;
  TestDevice first(arena, 0);
  TestDevice second(arena, 1);
  CHECK(first.run_once([] { std::abort(); }));
  int* value = arena.take<int>(1);
  CHECK_FALSE(second.run_once([value] { *value = 1; }));
  CHECK(*value == 1);
}

TEST_CASE("A process that a kernel forks does not report as the device") {
  TestArena arena;
  TestDevice device(arena);
  CHECK_FALSE(device.run_once([] {
    if (::fork() == 0) std::exit(9);
  }));
  CHECK(is_running(device.pid()));
}

// The status that wait() reports to a kernel for a child that calls `act`.
template <typename Act>
int status_of_kernels_child(TestArena& arena, TestDevice& device, Act act) {
  int* const status = arena.take<int>(1);
  const auto failure = device.run_once([=] {
    const pid_t child = ::fork();
    if (child == 0) {
      act();
      ::_exit(99);
    }
    if (::waitpid(child, status, 0) != child) *status = -1;
  });
  CHECK_FALSE(failure);
  return *status;
}

void write_to_bad_address() {
  *reinterpret_cast<volatile int*>(8) = 1;
}

TEST_CASE("wait() in a kernel reports by which signal its child ended, and the device goes on") {
  TestArena arena;
  TestDevice device(arena);
  const auto signal_of = [&](auto act) {
    const int status = status_of_kernels_child(arena, device, act);
    INFO("status " << status);
    CHECK(WIFSIGNALED(status));
    return WTERMSIG(status);
  };
  CHECK(signal_of(write_to_bad_address) == SIGSEGV);
  CHECK(signal_of([] { __builtin_trap(); }) == signal_of_trap());
  CHECK(signal_of([] { std::abort(); }) == SIGABRT);
  CHECK(signal_of([] { ::raise(SIGFPE); }) == SIGFPE);
  CHECK(signal_of([] { ::kill(::getpid(), SIGSEGV); }) == SIGSEGV);
  CHECK(signal_of([] { deep(1 << 30); }) == SIGSEGV);
}

TEST_CASE("A child of vfork() that crashes does not change what its device does when it crashes") {
  if (impl::linux_is_older_than(5, 16)) {
    WARN("skipped: this Linux ends all processes that share memory with one that crashes");
    return;
  }
  TestArena arena;
  TestDevice device(arena);
  int* const status = arena.take<int>(1);
  CHECK_FALSE(device.run_once([status] {
    const pid_t child = ::vfork();
    if (child == 0) {
      write_to_bad_address();
      ::_exit(99);
    }
    if (::waitpid(child, status, 0) != child) *status = -1;
  }));
  CHECK((WIFSIGNALED(*status) && WTERMSIG(*status) == SIGSEGV));
  const auto failure = device.run_once(write_to_bad_address);
  REQUIRE(failure);
  CHECK(failure->kind == Kind::illegal_address);
}

TEST_CASE("An exception that leaves a kernel in its child ends the child as in the host") {
  const auto outcome = in_fresh_process([] {
    TestArena arena;
    TestDevice device(arena);
    int* const status = arena.take<int>(1);
    const auto failure = device.run_once([status] {
      const pid_t child = ::fork();
      if (child == 0) throw std::runtime_error("no luck in the child");
      if (::waitpid(child, status, 0) != child) *status = -1;
    });
    if (failure || !WIFSIGNALED(*status) || WTERMSIG(*status) != SIGABRT) std::abort();
  });
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 0);
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring("no luck in the child"));
}

TEST_CASE("A child that returns from the kernel ends, and takes none of the device's work") {
  TestArena arena;
  TestDevice device(arena, 0, /*workers=*/1);
  int* const status = arena.take<int>(1);
  int* const runs = arena.take<int>(1);
  for (int round = 1; round <= 20; ++round) {
    *status = -1;
    const auto failure = device.run_once([=] {
      const pid_t child = ::fork();
      if (child == 0) return;
      if (::waitpid(child, status, 0) != child) *status = -1;
      __atomic_fetch_add(runs, 1, __ATOMIC_RELAXED);
    });
    REQUIRE_FALSE(failure);
    CHECK((WIFEXITED(*status) && WEXITSTATUS(*status) == 0));
    CHECK(*runs == round);
  }
}

}  // namespace
}  // namespace wherry::test::device_failure_test
