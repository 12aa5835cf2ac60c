// Device processes are invisible to the program: it sees no child, no signal, no stray output and
// no descriptor that stays open. No device process outlives the program, however it ends.
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <sstream>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/descriptors.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::fork_hygiene_test {
namespace {

constexpr const char* two_devices = "capacity=4M;capacity=4M";

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.closed);  // no device process has stdout or stderr open any more
}

void use(const Session& session) {
  const Managed<int> number{1};
  number[0] = 1;
  for (int device = 0; device < session.devices(); ++device)
    session.run(device, [to = number.data()] { ++*to; });
  expect(number[0] == 1 + session.devices(), "a kernel did not run");
}

volatile sig_atomic_t child_signals = 0;
volatile sig_atomic_t interrupts = 0;
sigjmp_buf out_of_handler;
void jump_out(int) {
  siglongjmp(out_of_handler, 1);
}

void count_child_signals() {
  struct sigaction action {};
  action.sa_handler = [](int) { child_signals = child_signals + 1; };
  ::sigaction(SIGCHLD, &action, nullptr);
}

void expect_no_child(const std::string& when) {
  errno = 0;
  expect(::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD, "wait() found a child " + when);
  expect(child_signals == 0, "SIGCHLD came " + when);
}

// Runs devices from start to end, and checks that no trace of a child process is visible.
void live_without_children() {
  count_child_signals();
  Session session{two_devices};
  expect_no_child("after cuInit");
  use(session);
  expect_no_child("after kernels ran");
  const pid_t victim = device_process(0);
  ::kill(victim, SIGKILL);
  expect(ends_within(victim, 5000), "a killed device process does not end");
  expect_no_child("after a device was killed");
  WHERRY_TRY(cuDevicePrimaryCtxReset(0));
  session.renew_stream(0);
  use(session);
  ::poll(nullptr, 0, 50);
  expect_no_child("after a device was reset");
  const pid_t own = ::fork();
  if (own == 0) ::_exit(5);
  int status = 0;
  expect(::wait(&status) == own && WEXITSTATUS(status) == 5,
         "wait() did not return the program's own child");
  child_signals = 0;
  expect_no_child("after the program's own child");
}

// Reads the ids of device processes, as this process printed them.
std::vector<pid_t> read_processes(Child& child) {
  std::istringstream words{child.read_line()};
  std::vector<pid_t> processes;
  for (pid_t process = 0; words >> process;) processes.push_back(process);
  return processes;
}

void print_processes() {
  std::printf("%d %d\n", device_process(0), device_process(1));
  std::fflush(stdout);
}

void check_ended(const std::vector<pid_t>& processes) {
  REQUIRE(processes.size() == 2);
  for (const pid_t process : processes) CHECK(ends_within(process, 5000));
}

TEST_CASE("a pipe's end of file arrives although devices run", "[system]") {
  require_passed(in_fresh_process([] {
    int ends[2];
    expect(::pipe(ends) == 0, "pipe");
    const Session session{two_devices};
    use(session);
    ::close(ends[1]);
    pollfd polled{ends[0], POLLIN, 0};
    expect(::poll(&polled, 1, 5000) == 1, "no end of file: a process keeps the pipe open");
    char byte = 0;
    expect(::read(ends[0], &byte, 1) == 0, "read something else than the end of file");
  }));
}

TEST_CASE("system() and popen() work while devices run", "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{two_devices};
    use(session);
    expect(::system("true") == 0, "system(true) failed");
    const int status = ::system("exit 3");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 3, "system() lost an exit code");
    FILE* const pipe = ::popen("echo hello", "r");
    expect(pipe != nullptr, "popen failed");
    char line[16] = {};
    expect(std::fgets(line, sizeof line, pipe) != nullptr && std::string{line} == "hello\n",
           "popen lost output");
    expect(::pclose(pipe) == 0, "pclose failed");
    use(session);
  }));
}

TEST_CASE("wait() finds no device process and SIGCHLD never comes", "[system]") {
  require_passed(in_fresh_process(live_without_children));
}

TEST_CASE("a subreaper finds no device process either", "[system]") {
  require_passed(in_fresh_process([] {
    expect(::prctl(PR_SET_CHILD_SUBREAPER, 1) == 0, "prctl");
    live_without_children();
  }));
}

TEST_CASE("process 1 of a process namespace finds no device process either", "[system]") {
  if (::geteuid() != 0) {
    WARN("not tried: making a process namespace needs root");
    return;
  }
  require_passed(in_fresh_process([] {
    expect(::unshare(CLONE_NEWPID | CLONE_NEWNS) == 0, "unshare");
    const pid_t first = ::fork();
    if (first == 0) {
      try {
        expect(::getpid() == 1, "not process 1");
        expect(::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "private mounts");
        expect(::mount("proc", "/proc", "proc", 0, nullptr) == 0, "mount of /proc");
        live_without_children();
      } catch (const std::exception& error) {
        std::fprintf(stderr, "FAILED in process 1: %s\n", error.what());
        std::exit(70);
      }
      std::exit(0);
    }
    int status = 0;
    expect(::waitpid(first, &status, 0) == first && status == 0, "process 1 failed");
  }));
}

TEST_CASE("Ctrl-C ends the program and its devices", "[system]") {
  Child child{[] {
    const Session session{two_devices};
    use(session);
    print_processes();
    ::poll(nullptr, 0, 30'000);
  }};
  const std::vector<pid_t> devices = read_processes(child);
  ::kill(-child.pid(), SIGINT);  // as a terminal does: to the whole process group
  const Outcome outcome = child.wait();
  INFO(outcome.describe());
  CHECK(outcome.signal == SIGINT);
  CHECK(outcome.closed);
  check_ended(devices);
}

TEST_CASE("a program that handles Ctrl-C keeps its devices", "[system]") {
  Child child{[] {
    ::signal(SIGINT, [](int) { interrupts = interrupts + 1; });
    const Session session{two_devices};
    print_processes();
    for (int i = 0; i < 1000 && interrupts == 0; ++i) ::poll(nullptr, 0, 30);
    expect(interrupts == 1, "the program's handler did not run once");
    ::poll(nullptr, 0, 100);
    use(session);
  }};
  const std::vector<pid_t> devices = read_processes(child);
  ::kill(-child.pid(), SIGINT);
  require_passed(child.wait());
  check_ended(devices);
}

TEST_CASE("kill -9 of the program leaves no process behind", "[system]") {
  Child child{[] {
    const Session session{two_devices};
    print_processes();
    // A kernel that runs forever must not keep its device process alive either.
    session.launch(0, 1, [](std::size_t) {
      for (;;) ::poll(nullptr, 0, 1000);
    });
    session.launch(1, 1, [](std::size_t) {
      for (volatile bool busy = true; busy;) {
      }
    });
    ::poll(nullptr, 0, 30'000);
  }};
  const std::vector<pid_t> devices = read_processes(child);
  ::poll(nullptr, 0, 50);  // the kernels run now, or are about to
  ::kill(child.pid(), SIGKILL);
  const Outcome outcome = child.wait();
  CHECK(outcome.signal == SIGKILL);
  CHECK(outcome.closed);
  check_ended(devices);
}

TEST_CASE("kill -9 of the program during changes of views leaves no process behind", "[system]") {
  for (int round = 0; round < 10; ++round) {
    Child child{[] {
      const Session session{two_devices};
      // Accesses one page of each region, so that each advice changes many views.
      constexpr std::size_t pages = 2048;
      const Managed<std::byte> memory{pages * 4096};
      std::memset(memory.data(), 1, memory.bytes());
      print_processes();
      for (;;) {
        for (std::size_t page = 0; page < pages; page += 2) {
          const auto address = reinterpret_cast<CUdeviceptr>(memory.data() + page * 4096);
          const CUmemLocation device{CU_MEM_LOCATION_TYPE_DEVICE, static_cast<int>(page / 2 % 2)};
          WHERRY_TRY(cuMemAdvise(address, 4096, CU_MEM_ADVISE_SET_ACCESSED_BY, device));
          WHERRY_TRY(cuMemAdvise(address, 4096, CU_MEM_ADVISE_SET_READ_MOSTLY, device));
          WHERRY_TRY(cuMemAdvise(address, 4096, CU_MEM_ADVISE_UNSET_READ_MOSTLY, device));
        }
      }
    }};
    const std::vector<pid_t> devices = read_processes(child);
    ::poll(nullptr, 0, 10 + round);
    ::kill(child.pid(), SIGKILL);
    const Outcome outcome = child.wait();
    CHECK(outcome.signal == SIGKILL);
    CHECK(outcome.closed);
    check_ended(devices);
  }
}

TEST_CASE("the exit code is the program's own, and devices end with it", "[system]") {
  const auto run = [](void (*end)()) {
    Child child{[end] {
      const Session session{two_devices};
      use(session);
      print_processes();
      end();
    }};
    const std::vector<pid_t> devices = read_processes(child);
    Outcome outcome = child.wait();
    CHECK(outcome.closed);
    check_ended(devices);
    return outcome;
  };
  CHECK(run([] { std::exit(7); }).exit_code == 7);
  CHECK(run([] { std::quick_exit(8); }).exit_code == 8);
  CHECK(run([] { ::_exit(9); }).exit_code == 9);
  CHECK(run([] {}).exit_code == 0);
  CHECK(run([] { std::abort(); }).signal == SIGABRT);
}

TEST_CASE("exit() while a kernel runs ends at once", "[system]") {
  Child child{[] {
    const Session session{two_devices};
    print_processes();
    session.launch(0, 1, [](std::size_t) {
      for (;;) ::poll(nullptr, 0, 1000);
    });
    std::exit(4);
  }};
  const std::vector<pid_t> devices = read_processes(child);
  const Outcome outcome = child.wait(20'000);
  INFO(outcome.describe());
  CHECK(outcome.exit_code == 4);
  check_ended(devices);
}

TEST_CASE("output that was buffered before cuInit comes out once", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    std::printf("once");  // no newline, no flush: it waits in the buffer that a fork copies
    Session session{two_devices};
    use(session);
    WHERRY_TRY(cuDevicePrimaryCtxReset(0));
    session.renew_stream(0);
    use(session);
  });
  require_passed(outcome);
  CHECK(outcome.out == "once");
  CHECK(outcome.err.empty());
}

TEST_CASE("a device process has its own process name", "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{two_devices};
    for (int device = 0; device < 2; ++device) {
      const auto name = process_status(device_process(device), "Name");
      expect(name == "wherry-dev" + std::to_string(device),
             "the process name is " + name.value_or("(gone)"));
    }
  }));
}

TEST_CASE("a forked child may not access managed memory, and the parent is not affected",
          "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    const Managed<int> numbers{2048};
    numbers[0] = 17;
    session.run(0, [to = numbers.data() + 1024] { *to = 18; });
    const pid_t child = ::fork();
    if (child == 0) {
      ::_exit(numbers[0] == 17 ? 1 : 2);
    }
    int status = 0;
    expect(::waitpid(child, &status, 0) == child, "waitpid");
    expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV,
           "the child's access did not end in SIGSEGV");
    expect(numbers[0] == 17 && numbers[1024] == 18, "the parent's memory changed");
    use(session);
    std::printf("%p\n", static_cast<void*>(numbers.data()));
  });
  require_passed(outcome);
  const std::string address = outcome.out.substr(0, outcome.out.size() - 1);
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(
                              " read " + address + ": managed memory is not in a child of fork()"));
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
}

TEST_CASE("a forked child's own handler gets its access to managed memory, and one line says why",
          "[system]") {
  const bool before = GENERATE(true, false);
  const Outcome outcome = in_fresh_process([=] {
    const auto install = [] {
      struct sigaction action {};
      action.sa_handler = jump_out;
      ::sigaction(SIGSEGV, &action, nullptr);
    };
    if (before) install();
    const Session session{two_devices};
    const Managed<int> number{1};
    number[0] = 17;
    const pid_t child = ::fork();
    if (child == 0) {
      if (!before) install();
      for (int i = 0; i < 3; ++i) {
        if (sigsetjmp(out_of_handler, 1) == 0) {
          *const_cast<volatile int*>(number.data()) = i;
          ::_exit(1);
        }
      }
      struct sigaction seen {};
      ::sigaction(SIGSEGV, nullptr, &seen);
      sigset_t blocked;
      ::sigprocmask(SIG_BLOCK, nullptr, &blocked);
      const bool same = seen.sa_handler == jump_out && sigismember(&blocked, SIGSEGV) == 0 &&
                        sigismember(&blocked, SIGSTKFLT) == 0;
      ::_exit(same ? 0 : 2);
    }
    int status = 0;
    expect(::waitpid(child, &status, 0) == child, "waitpid");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0,
           "the child's handler did not get its accesses, or its signals have changed");
    use(session);
  });
  require_passed(outcome);
  CHECK_THAT(outcome.err, Catch::Matchers::ContainsSubstring(" wrote to "));
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
}

TEST_CASE("a program that a forked child executes inherits the blocked signals", "[system]") {
  const Outcome outcome = in_fresh_process([] {
    const Session session{two_devices};
    sigset_t all;
    sigfillset(&all);
    ::sigprocmask(SIG_BLOCK, &all, nullptr);
    std::printf("%s\n", process_status(::getpid(), "SigBlk").value_or("?").c_str());
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      ::execl("/bin/sed", "sed", "-n", "s/SigBlk:.//p", "/proc/self/status", nullptr);
      ::_exit(1);
    }
    int status = 0;
    expect(::waitpid(child, &status, 0) == child && status == 0, "the child's program failed");
  });
  require_passed(outcome);
  const std::size_t line = outcome.out.size() / 2;
  CHECK(outcome.out.substr(0, line) == outcome.out.substr(line));
}

TEST_CASE("a process that a kernel forks may not either, and the device is not affected",
          "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{two_devices};
    const Managed<int> number{1};
    const Managed<int> ended{1};
    number[0] = 17;
    session.run(0, [from = number.data(), to = ended.data()] {
      const pid_t child = ::fork();
      if (child == 0) ::_exit(*const_cast<volatile int*>(from) == 17 ? 2 : 3);
      int status = 0;
      *to = ::waitpid(child, &status, 0) == child ? status : -1;
    });
    expect(WIFSIGNALED(ended[0]) && WTERMSIG(ended[0]) == SIGSEGV,
           "the child's access did not end in SIGSEGV");
    expect(page_state(number.data()).resident == 1, "the page left the host");
    expect(number[0] == 17, "the host's memory changed");
    use(session);
  }));
}

TEST_CASE("a forked child keeps none of the library's descriptors", "[system]") {
  require_passed(in_fresh_process([] {
    const std::set<int> own = open_descriptors();
    const Session session{two_devices};
    use(session);
    // Makes one object of each kind that has a descriptor.
    CUevent event = nullptr;
    WHERRY_TRY(cuEventCreate(&event, CU_EVENT_INTERPROCESS | CU_EVENT_DISABLE_TIMING));
    CUipcEventHandle handle{};
    WHERRY_TRY(cuIpcGetEventHandle(&handle, event));
    const CUmemAllocationProp on_device{CU_MEM_ALLOCATION_TYPE_PINNED,
                                        CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                        {CU_MEM_LOCATION_TYPE_DEVICE, 0},
                                        nullptr,
                                        {}};
    CUmemGenericAllocationHandle physical = 0;
    WHERRY_TRY(cuMemCreate(&physical, 2 << 20, &on_device, 0));
    std::vector<char> registered(8192);
    WHERRY_TRY(cuMemHostRegister(registered.data(), registered.size(), 0));
    expect(open_descriptors().size() > own.size(), "the library has no descriptors");
    const pid_t child = ::fork();
    if (child == 0) ::_exit(open_descriptors() == own ? 0 : 1);
    int status = 0;
    expect(::waitpid(child, &status, 0) == child, "waitpid");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "something is open in the child");
    use(session);
  }));
}

TEST_CASE("in a forked child the library is not initialized, and its exit does no harm",
          "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{two_devices};
    const Managed<int> number{1};
    number[0] = 5;
    const pid_t child = ::fork();
    if (child == 0) {
      const auto refused = [](CUresult result) { return result == CUDA_ERROR_NOT_INITIALIZED; };
      int count = 0;
      CUdeviceptr pointer = 0;
      CUcontext context = nullptr;
      wherryStats stats{};
      stats.size = sizeof stats;
      const bool all = refused(cuInit(0)) && refused(cuDeviceGetCount(&count)) &&
                       refused(cuMemAllocManaged(&pointer, 4096, CU_MEM_ATTACH_GLOBAL)) &&
                       refused(cuMemFree(reinterpret_cast<CUdeviceptr>(number.data()))) &&
                       refused(cuCtxGetCurrent(&context)) && refused(cuCtxSynchronize()) &&
                       refused(wherryGetStats(&stats));
      std::exit(all ? 0 : 1);  // runs all exit handlers
    }
    int status = 0;
    expect(::waitpid(child, &status, 0) == child, "waitpid");
    expect(WIFEXITED(status) && WEXITSTATUS(status) == 0, "a call of the child was not refused");
    expect(number[0] == 5, "the parent's memory changed");
    use(session);
  }));
}

}  // namespace
}  // namespace wherry::test::fork_hygiene_test
