// When the program ends, its device processes have ended and are reaped: PID 1 of its container
// finds no orphan, running or zombie, even where it never reaps. Managed memory stays usable on the
// host until the end.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <thread>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::exit_test {
namespace {

constexpr const char* two_devices = "capacity=16M,workers=1;capacity=16M,workers=1";
constexpr std::size_t count = 1 << 16;
constexpr int wrong_data = 9;

// Runs the program under a PID 1 that reaps only the program, and checks what the program leaves.
void check_nothing_is_left(const std::function<void()>& program, int exit_code) {
  const auto outcome = in_fresh_process([&] {
    as_first_process([&] {
      const pid_t host = ::fork();
      if (host == 0) {
        program();
        std::exit(0);
      }
      int status = 0;
      expect(::waitpid(host, &status, 0) == host, "the program was not waited for");
      // Processes that the program leaves behind are children of PID 1 now.
      siginfo_t info{};
      const int left = ::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL);
      expect(left == -1 && errno == ECHILD, "a process is left");
      expect(WIFEXITED(status) && WEXITSTATUS(status) == exit_code,
             "the program ended with status " + std::to_string(status));
    });
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.err.find("wherry:") == std::string::npos);
}

void wait_forever(const void*, std::size_t, std::size_t) {
  for (;;) continue;
}

// Memory that a device has written, and that is resident there.
const int* numbers = nullptr;

void write_numbers(const Session& session) {
  CUdeviceptr pointer = 0;
  WHERRY_TRY(cuMemAllocManaged(&pointer, count * sizeof(int), CU_MEM_ATTACH_GLOBAL));
  numbers = reinterpret_cast<const int*>(pointer);
  session.run(0, [to = reinterpret_cast<int*>(pointer)] {
    for (std::size_t i = 0; i < count; ++i) to[i] = static_cast<int>(i);
  });
}

void read_numbers() {
  for (std::size_t i = 0; i < count; ++i)
    if (numbers[i] != static_cast<int>(i)) ::_exit(wrong_data);
}

}  // namespace

TEST_CASE("a program that returns from main leaves no device behind", "[system]") {
  check_nothing_is_left([] { write_numbers(Session{two_devices}); }, 0);
}

TEST_CASE("exit() in another thread leaves no device behind, although kernels run forever",
          "[system]") {
  check_nothing_is_left(
      [] {
        const Session session{two_devices};
        for (const int device : {0, 1})
          WHERRY_TRY(wherryLaunchKernel(session.stream(device), wait_forever, nullptr, 0, 1));
        std::thread([] { std::exit(5); }).detach();
        (void)session.wait(0);
        for (;;) ::pause();
      },
      5);
}

TEST_CASE("quick_exit() leaves no device behind, and later handlers read managed memory",
          "[system]") {
  check_nothing_is_left(
      [] {
        // Registered before the library's handler, so called after it.
        std::at_quick_exit(read_numbers);
        write_numbers(Session{two_devices});
        std::quick_exit(6);
      },
      6);
}

TEST_CASE("a program with a stopped device ends, and leaves no process behind", "[system]") {
  check_nothing_is_left(
      [] {
        write_numbers(Session{two_devices});
        ::kill(device_process(0), SIGSTOP);
      },
      0);
}

TEST_CASE("a handler of atexit() uses devices and memory as before", "[system]") {
  check_nothing_is_left(
      [] {
        static const Session* session = nullptr;
        // Registered before cuInit, so called after all handlers that cuInit registers.
        std::atexit([] {
          read_numbers();
          // Uses a stream: the thread's current context is gone with its thread-local variables.
          session->run(0, [to = const_cast<int*>(numbers)] {
            for (std::size_t i = 0; i < count; ++i) ++to[i];
          });
          if (numbers[count - 1] != static_cast<int>(count)) ::_exit(wrong_data);
        });
        session = new Session{two_devices};
        write_numbers(*session);
      },
      0);
}

TEST_CASE("exit() in a forked child leaves the parent's devices alone", "[system]") {
  const auto outcome = in_fresh_process([] {
    const Session session{two_devices};
    const pid_t child = ::fork();
    if (child == 0) std::exit(3);
    int status = 0;
    expect(::waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3, "the child");
    write_numbers(session);
    read_numbers();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::exit_test
