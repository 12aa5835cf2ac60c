// Stopped hosts, slow modules and changed credentials: a healthy device that takes long is not
// ended, and a device that has to end does end.
#include <grp.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>

#include "devices/late_module.h"
#include "os/process/other_process.h"
#include "os/process/process.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/test_device.h"
#include "support/waiting.h"
#include "support/witness.h"

namespace wherry::test::device_waits_test {
namespace {

using std::chrono::milliseconds;

constexpr uid_t nobody = 65534;

void sleep_for(milliseconds time) {
  std::this_thread::sleep_for(time);
}

bool is_stopped(pid_t process) {
  const auto state = process_status(process, "State");
  return state && state->starts_with("T");
}

// User and system time that a process has used so far, in clock ticks.
std::uint64_t cpu_ticks(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string stat;
  std::getline(file, stat);
  std::istringstream words(stat.substr(stat.rfind(')') + 1));
  std::string word;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  for (int i = 0; i < 11; ++i) words >> word;
  words >> user >> system;
  return user + system;
}

// Whether the process uses no CPU time in one of several periods of 300 ms.
bool stops_working(pid_t process) {
  return comes_true([&] {
    const std::uint64_t before = cpu_ticks(process);
    sleep_for(milliseconds(300));
    return cpu_ticks(process) == before;
  });
}

bool works(pid_t process) {
  const std::uint64_t before = cpu_ticks(process);
  return comes_true([&] { return cpu_ticks(process) > before + 5; });
}

// The module whose constructors SlowConstructors makes slow.
constexpr int slow_module = 3;

// Makes modules' constructors slow in devices that are started during its lifetime.
struct SlowConstructors {
  explicit SlowConstructors(int ms) {
    ::setenv("WHERRY_TEST_LATE_MS", std::to_string(ms).c_str(), 1);
    ::setenv("WHERRY_TEST_LATE_HOST", std::to_string(::getpid()).c_str(), 1);
  }
  ~SlowConstructors() { ::unsetenv("WHERRY_TEST_LATE_MS"); }
};

}  // namespace

TEST_CASE("A command survives a stop of host and device that is longer than its limit") {
  constexpr std::uint64_t limit_ns = 1'500'000'000;
  Child host([] {
    TestArena arena;
    TestDevice device(arena, 0, 2, nullptr, limit_ns);
    std::printf("%d\n", device.pid());
    std::fflush(stdout);
    ::kill(device.pid(), SIGSTOP);
    std::printf("asks\n");
    std::fflush(stdout);
    const int error = device.process().open_arena(TestDevice::twice_open);
    int* value = arena.take<int>(1);
    const bool failed = device.run_once([value] { *value = 7; }).has_value();
    std::printf("%d %d %d\n", error, failed ? 1 : 0, *value);
    std::fflush(stdout);
  });
  const pid_t device = std::stoi(host.read_line());
  REQUIRE(host.read_line() == "asks");
  sleep_for(milliseconds(50));
  REQUIRE(::kill(host.pid(), SIGSTOP) == 0);
  sleep_for(milliseconds(2'000));
  REQUIRE(::kill(host.pid(), SIGCONT) == 0);
  sleep_for(milliseconds(50));
  REQUIRE(::kill(device, SIGCONT) == 0);
  CHECK(host.read_line() == "0 0 7");
  CHECK(host.wait().passed());
}

TEST_CASE("A device stops working while its host is stopped, and continues with it") {
  const std::map<std::string, std::function<void(pid_t)>> stops = {
      {"SIGSTOP of the host", [](pid_t host) { ::kill(host, SIGSTOP); }},
      {"Ctrl-Z, to the host's group", [](pid_t host) { ::kill(-host, SIGTSTP); }},
  };
  for (const auto& [name, stop] : stops) {
    INFO(name);
    Child host([] {
      sigset_t go_on;
      sigemptyset(&go_on);
      sigaddset(&go_on, SIGUSR1);
      ::sigprocmask(SIG_BLOCK, &go_on, nullptr);
      TestArena arena;
      TestDevice device(arena);
      struct Shared {
        std::atomic<bool> end;
        std::atomic<std::uint64_t> count;
      };
      auto* shared = arena.take<Shared>(1);
      const auto count = [shared](std::size_t) {
        while (!shared->end) ++shared->count;
      };
      std::printf("%d\n", device.pid());
      std::fflush(stdout);
      std::thread ender([&] {
        int signal = 0;
        ::sigwait(&go_on, &signal);
        shared->end = true;
      });
      const auto failure = device.run(2, count);
      ender.join();
      std::printf("%s\n", failure ? "failed" : "done");
      std::fflush(stdout);
    });
    const pid_t device = std::stoi(host.read_line());
    REQUIRE(works(device));
    stop(host.pid());
    REQUIRE(comes_true([&] { return is_stopped(host.pid()); }));
    CHECK(stops_working(device));
    ::kill(host.pid(), SIGCONT);
    CHECK(works(device));
    // The second stop has the same effect as the first.
    stop(host.pid());
    CHECK(stops_working(device));
    ::kill(host.pid(), SIGCONT);
    CHECK(works(device));
    ::kill(host.pid(), SIGUSR1);
    CHECK(host.read_line() == "done");
    CHECK(host.wait().passed());
  }
}

// Freezes a process by a control group of version 1. Linux then shows it in state D, as it shows
// one that waits for a lock of Linux. (Version 2 shows a process that sleeps.)
class Freezer {
 public:
  explicit Freezer(pid_t process) {
    if (::mkdir(folder_.c_str(), 0755) != 0) return;
    write("cgroup.procs", process);
    write("freezer.state", "FROZEN");
    works_ = comes_true([&] { return impl::is_delayed_by_linux(process); });
  }
  // Requires: the process has ended.
  ~Freezer() {
    thaw();
    (void)comes_true([&] { return ::rmdir(folder_.c_str()) == 0 || errno != EBUSY; });
  }
  bool works() const { return works_; }
  void thaw() const { write("freezer.state", "THAWED"); }

 private:
  template <typename Value>
  void write(const char* file, const Value& value) const {
    std::ofstream(folder_ + '/' + file) << value;
  }

  const std::string folder_ = "/sys/fs/cgroup/freezer/wherry-test-" + std::to_string(::getpid());
  bool works_ = false;
};

TEST_CASE("A stopped device is overdue after a second, until it answers") {
  TestArena arena;
  TestDevice device(arena);
  const impl::PageSpan pages{{0}, 1};
  REQUIRE(device.process().forget_entries({&pages, 1}) == 0);
  CHECK_FALSE(device.process().is_overdue());
  REQUIRE(::kill(device.pid(), SIGSTOP) == 0);
  CHECK(device.process().forget_entries({&pages, 1}) == ETIMEDOUT);
  CHECK(device.process().is_overdue());
  // No caller waits for the stopped device again: 1000 calls fail at once.
  for (int i = 0; i < 1000; ++i) REQUIRE(device.process().forget_entries({&pages, 1}) == ETIMEDOUT);
  CHECK(device.process().forbid(arena.base(), impl::page_size) == ETIMEDOUT);
  REQUIRE(::kill(device.pid(), SIGCONT) == 0);
  REQUIRE(comes_true([&] { return !device.process().is_overdue(); }));
  CHECK(device.process().forget_entries({&pages, 1}) == 0);
}

TEST_CASE("A stopped device that must answer is ended, so that nobody waits for it again") {
  TestArena arena;
  TestDevice device(arena, 0, 2, nullptr, /*command_limit_ns=*/200'000'000);
  REQUIRE(::kill(device.pid(), SIGSTOP) == 0);
  CHECK(device.process().open_arena(TestDevice::twice_open) == ESRCH);
  CHECK_FALSE(is_running(device.pid()));
}

TEST_CASE("A device that Linux delays is not ended, however short the limit of a command is") {
  TestArena arena;
  auto device =
      std::make_unique<TestDevice>(arena, 0, 2, nullptr, /*command_limit_ns=*/200'000'000);
  const Freezer freezer(device->pid());
  if (!freezer.works()) {
    std::puts("SKIP no control group of version 1 here can freeze a process");
    return;
  }
  auto command = std::async(std::launch::async,
                            [&] { return device->process().open_arena(TestDevice::twice_open); });
  CHECK(command.wait_for(milliseconds(1'500)) == std::future_status::timeout);
  freezer.thaw();
  CHECK(command.get() == 0);
  CHECK_FALSE(device->process().is_overdue());
  CHECK_FALSE(device->run_once([] {}));
  device.reset();
}

TEST_CASE("A host that is killed while it is stopped ends its device, too") {
  Child host([] {
    TestArena arena;
    TestDevice device(arena);
    std::printf("%d\n", device.pid());
    std::fflush(stdout);
    (void)device.run_once([] {
      for (;;) continue;
    });
  });
  const pid_t device = std::stoi(host.read_line());
  REQUIRE(works(device));
  ::kill(host.pid(), SIGSTOP);
  REQUIRE(stops_working(device));
  ::kill(host.pid(), SIGKILL);
  CHECK(ends_within(device, 10'000));
}

TEST_CASE("A module may take longer to load than a command's limit, and the device survives") {
  constexpr std::uint64_t limit_ns = 400'000'000;
  const SlowConstructors slow(1'500);
  TestArena arena;
  TestDevice device(arena, 0, 2, nullptr, limit_ns);
  const LateModule module(slow_module);
  auto loading = std::async(std::launch::async,
                            [&] { return resolve_kernel(device.process(), module.kernel()); });
  sleep_for(milliseconds(100));
  CHECK(device.process().open_arena(TestDevice::twice_open) == 0);
  int* value = arena.take<int>(1);
  CHECK_FALSE(device.run_once([value] { *value = 5; }));
  CHECK(*value == 5);
  CHECK(loading.wait_for(std::chrono::seconds(0)) == std::future_status::timeout);
  REQUIRE(loading.get());
  REQUIRE_FALSE(device.wait(device.post(module.kernel(), &value, sizeof value, 1)));
  CHECK(*value == 3);
}

TEST_CASE("A device that dies while it loads a module leaves no launch waiting") {
  const SlowConstructors slow(60'000);
  TestArena arena;
  TestDevice device(arena);
  const LateModule module(slow_module);
  auto loading = std::async(std::launch::async,
                            [&] { return device.process().load_module_of(module.kernel()); });
  sleep_for(milliseconds(100));
  ::kill(device.pid(), SIGKILL);
  CHECK(loading.get() == ESRCH);
}

TEST_CASE("A device ends although its agent hangs and the host may no longer send it signals") {
  if (::geteuid() != 0) {
    WARN("SKIP: only root can drop its user id");
    return;
  }
  const auto outcome = in_fresh_process([] {
    TestArena arena;
    TestDevice device(arena);
    const impl::Fd pidfd(::dup(device.process().pidfd()));
    // A debugger that stops only the agent.
    int ready[2];
    expect(::pipe(ready) == 0, "pipe");
    const pid_t debugger = ::fork();
    if (debugger == 0) {
      bool stopped = ::ptrace(PTRACE_SEIZE, device.pid(), nullptr, nullptr) == 0 &&
                     ::ptrace(PTRACE_INTERRUPT, device.pid(), nullptr, nullptr) == 0 &&
                     ::waitpid(device.pid(), nullptr, __WALL) == device.pid();
      const char word = stopped ? 'y' : 'n';
      (void)!::write(ready[1], &word, 1);
      ::sleep(60);
      ::_exit(0);
    }
    char word = 0;
    expect(::read(ready[0], &word, 1) == 1, "read");
    if (word != 'y') {
      ::kill(debugger, SIGKILL);
      std::printf("SKIP: no debugger\n");
      return;
    }
    expect(::setgroups(0, nullptr) == 0 && ::setresgid(nobody, nobody, nobody) == 0 &&
               ::setresuid(nobody, nobody, nobody) == 0,
           "dropping root");
    expect(impl::kill_process(pidfd) == EPERM, "the signal is permitted");
    device.process().stop();
    expect(impl::has_ended(pidfd), "the device still runs");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::device_waits_test
