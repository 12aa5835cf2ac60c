// Device processes are invisible to the application, and never outlive it.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "os/memory/loader_memory.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"
#include "support/test_device.h"
#include "support/witness.h"

namespace wherry::test::device_hygiene_test {
namespace {

volatile std::sig_atomic_t child_signals = 0;

// Threads that use malloc and stdio all the time, so that forks happen during such calls. The
// sanitizers' allocators do not handle fork during a call: with sanitizers the threads do nothing.
class BusyThreads {
 public:
  explicit BusyThreads(int count) {
    for (int i = 0; i < count; ++i) {
      threads_.emplace_back([this] {
        if (impl::runs_under_sanitizer()) {
          ++idle_;
          stop_.wait(false);
        }
        while (!stop_) {
          const std::string text(300, 'x');
          std::FILE* file = std::fopen("/dev/null", "w");
          std::fputs(text.c_str(), file);
          std::fclose(file);
        }
      });
    }
    while (impl::runs_under_sanitizer() && idle_ < count) std::this_thread::yield();
  }
  ~BusyThreads() {
    stop_ = true;
    stop_.notify_all();
    for (auto& thread : threads_) thread.join();
  }

 private:
  std::atomic<bool> stop_ = false;
  std::atomic<int> idle_ = 0;
  std::vector<std::thread> threads_;
};

void expect_no_children(const char* when) {
  errno = 0;
  const pid_t reported = ::waitpid(-1, nullptr, WNOHANG);
  expect(reported == -1 && errno == ECHILD, std::string("wait() reports a process ") + when);
  expect(child_signals == 0, std::string("SIGCHLD arrived ") + when);
}

// Checks guarantees that an application without knowledge of devices relies on.
void check_that_the_program_notices_nothing() {
  struct sigaction action {};
  action.sa_handler = [](int) { child_signals = child_signals + 1; };
  ::sigaction(SIGCHLD, &action, nullptr);
  TestArena arena;
  for (int round = 0; round < 5; ++round) {
    TestDevice killed(arena, 0);
    TestDevice stopped(arena, 1);
    TestDevice crashed(arena, 2);
    expect(!killed.run_once([] {}), "a kernel failed");
    expect_no_children("while devices run");
    ::kill(killed.pid(), SIGKILL);
    killed.wait_for_end();
    expect(crashed.run_once([] { std::abort(); }).has_value(), "a crash was not seen");
    stopped.process().stop();
    expect_no_children("when devices have ended");
  }
  expect(std::system("exit 3") == 3 << 8, "system() does not work");
  TestDevice device(arena);
  std::FILE* pipe = ::popen("echo heard", "r");
  char line[16] = {};
  expect(std::fgets(line, sizeof line, pipe) != nullptr && std::string(line) == "heard\n",
         "popen() does not work");
  expect(::pclose(pipe) == 0, "pclose() does not work");
}

void with_threads(const std::function<void()>& body) {
  const BusyThreads threads(3);
  body();
}

void become_subreaper() {
  expect(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "no subreaper");
}

TEST_CASE("No SIGCHLD arrives and wait() reports nothing, for every kind of program") {
  const std::map<std::string, std::function<void()>> programs = {
      {"one thread", check_that_the_program_notices_nothing},
      {"several threads", [] { with_threads(check_that_the_program_notices_nothing); }},
      {"subreaper",
       [] {
         become_subreaper();
         check_that_the_program_notices_nothing();
       }},
      {"subreaper with several threads",
       [] {
         become_subreaper();
         with_threads(check_that_the_program_notices_nothing);
       }},
      {"PID 1", [] { as_first_process(check_that_the_program_notices_nothing); }},
      {"PID 1 with several threads",
       [] { as_first_process([] { with_threads(check_that_the_program_notices_nothing); }); }},
  };
  for (const auto& [name, program] : programs) {
    INFO(name);
    const auto outcome = in_fresh_process(program);
    INFO(outcome.describe());
    CHECK(outcome.passed());
    CHECK(outcome.closed);
  }
}

TEST_CASE("The end of a pipe reaches its reader while devices run") {
  TestArena arena;
  int ends[2];
  REQUIRE(::pipe(ends) == 0);  // not close-on-exec
  TestDevice device(arena);
  CHECK_FALSE(device.run_once([] {}));
  ::close(ends[1]);
  pollfd polled{ends[0], POLLIN, 0};
  REQUIRE(::poll(&polled, 1, 10'000) == 1);
  char byte;
  CHECK(::read(ends[0], &byte, 1) == 0);
  ::close(ends[0]);
}

TEST_CASE("A device has stdout, stderr and its own descriptors open, and no others") {
  namespace fs = std::filesystem;
  TestArena arena;
  TestDevice first(arena, 0);
  const int file = ::open("/etc/passwd", O_RDONLY);
  REQUIRE(file >= 0);
  TestDevice device(arena, 1);
  CHECK_FALSE(device.run_once([] {}));
  std::map<std::string, int> kinds;
  const std::string folder = "/proc/" + std::to_string(device.pid()) + "/fd";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string target = fs::read_symlink(entry.path());
    const std::string number = entry.path().filename();
    if (number == "1" || number == "2")
      CHECK(target == fs::read_symlink("/proc/self/fd/" + number));
    else if (number == "0")
      CHECK(target == "/dev/null");
    // With the mprotect trap the device reads its own page table there.
    else if (target != "/proc/" + std::to_string(device.pid()) + "/pagemap")
      ++kinds[target.substr(0, target.find('['))];
  }
  const std::map<std::string, int> expected = {
      {"anon_inode:", 3}, {"socket:", 1}, {"/memfd:wherry-test-pool (deleted)", 1}};
  CHECK(kinds == expected);
  ::close(file);
}

TEST_CASE("A device starts without the application's blocked, caught and ignored signals") {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  ::sigprocmask(SIG_BLOCK, &all, &before);
  const auto handler = ::signal(SIGTERM, SIG_IGN);
  TestArena arena;
  TestDevice device(arena);
  ::signal(SIGTERM, handler);
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  CHECK(process_status(device.pid(), "SigBlk") == "0000000000000000");
  CHECK(process_status(device.pid(), "SigIgn") == "0000000000201000");  // SIGPIPE, SIGTTOU
  CHECK(::getpgid(device.pid()) == device.pid());
  REQUIRE(::kill(device.pid(), SIGTERM) == 0);
  CHECK(device.wait_for_end().signal == SIGTERM);
}

TEST_CASE("Starting a device does not change the application's signal mask and handlers") {
  const auto handler = [](int) {};
  for (const bool threads : {false, true}) {
    const auto outcome = in_fresh_process([&] {
      struct sigaction action {};
      action.sa_handler = handler;
      ::sigaction(SIGSYS, &action, nullptr);
      sigset_t some;
      sigemptyset(&some);
      sigaddset(&some, SIGUSR1);
      ::pthread_sigmask(SIG_BLOCK, &some, nullptr);
      const auto masks = [] {
        return *process_status(::gettid(), "SigBlk") + *process_status(::getpid(), "SigCgt");
      };
      const auto start_and_compare = [&] {
        const std::string before = masks();
        TestArena arena;
        TestDevice device(arena);
        expect(masks() == before, "the mask or the handlers changed");
        action = {};
        ::sigaction(SIGSYS, nullptr, &action);
        expect(action.sa_handler == +handler, "the handler changed");
      };
      threads ? with_threads(start_and_compare) : start_and_compare();
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
  }
}

TEST_CASE("Output in the application's buffers is written once") {
  for (const bool threads : {false, true}) {
    const auto outcome = in_fresh_process([threads] {
      std::printf("once;");
      const auto start_and_print = [] {
        TestArena arena;
        TestDevice device(arena);
        expect(!device.run_once([] { std::printf("kernel;"); }), "a kernel failed");
        expect(device.run_once([] { std::exit(0); }).has_value(), "exit() was not seen");
      };
      threads ? with_threads(start_and_print) : start_and_print();
    });
    INFO(outcome.describe());
    CHECK(outcome.passed());
    CHECK(outcome.out == "kernel;once;");
  }
}

// Prints the process ids of two devices, then waits forever.
void run_devices() {
  TestArena arena;
  TestDevice first(arena, 0);
  TestDevice second(arena, 1);
  const auto endless = [](const void*, std::size_t, std::size_t) {
    for (;;) ::pause();
  };
  second.post(endless, nullptr, 0, 2);
  std::printf("%d\n%d\n", first.pid(), second.pid());
  std::fflush(stdout);
  for (;;) ::pause();
}

TEST_CASE("Devices end when the host ends, however it ends") {
  const std::map<std::string, std::function<void(const Child&)>> ends = {
      {"kill -9", [](const Child& host) { ::kill(host.pid(), SIGKILL); }},
      {"Ctrl-C", [](const Child& host) { ::kill(-host.pid(), SIGINT); }},
  };
  for (const bool threads : {false, true}) {
    for (const auto& [name, end] : ends) {
      INFO(name);
      Child host([threads] { threads ? with_threads(run_devices) : run_devices(); });
      const pid_t devices[] = {std::stoi(host.read_line()), std::stoi(host.read_line())};
      for (const pid_t device : devices) REQUIRE(is_running(device));
      end(host);
      const auto outcome = host.wait(10'000);
      CHECK(outcome.signal != 0);
      CHECK(outcome.closed);
      for (const pid_t device : devices) CHECK(ends_within(device, 10'000));
    }
  }
}

TEST_CASE("Devices end when the host runs another program, whose exit code is returned") {
  Child host([] {
    TestArena arena;
    TestDevice device(arena);
    std::printf("%d\n", device.pid());
    std::fflush(stdout);
    ::execl("/bin/sh", "sh", "-c", "sleep 0.2; exit 5", nullptr);
  });
  const pid_t device = std::stoi(host.read_line());
  const auto outcome = host.wait(20'000);
  CHECK(outcome.exit_code == 5);
  CHECK(ends_within(device, 10'000));
}

TEST_CASE("A host that returns from main without stopping its devices leaves none behind") {
  Child host([] {
    // Never destroyed.
    static TestArena* arena = new TestArena;
    static TestDevice* device = new TestDevice(*arena);
    std::printf("%d\n", device->pid());
    std::exit(6);
  });
  const pid_t device = std::stoi(host.read_line());
  const auto outcome = host.wait(20'000);
  CHECK(outcome.exit_code == 6);
  CHECK(outcome.closed);
  CHECK(ends_within(device, 10'000));
}

TEST_CASE("A process that the application forks does not end the application's devices") {
  TestArena arena;
  TestDevice device(arena);
  const pid_t forked = ::fork();
  if (forked == 0) {
    device.process().stop();
    ::_exit(0);
  }
  REQUIRE(::waitpid(forked, nullptr, 0) == forked);
  CHECK_FALSE(device.run_once([] {}));
}

TEST_CASE("Devices start repeatedly beside threads that use malloc and stdio all the time") {
  const BusyThreads threads(3);
  TestArena arena;
  for (int i = 0; i < 100; ++i) {
    TestDevice device(arena);
    REQUIRE_FALSE(device.run_once([] { std::string text(500, 'y'); }));
  }
}

}  // namespace
}  // namespace wherry::test::device_hygiene_test
