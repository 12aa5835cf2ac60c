// The program's own handlers of SIGSEGV and SIGBUS next to the library's: they get every fault that
// is not the library's, and no other.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::signals_test {
namespace {

constexpr const char* one_device = "capacity=4M";
constexpr int numbers = 4096;

void require_passed(const Outcome& outcome) {
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

// Moves every page of the memory to the device, and then back to the host.
void use(const Session& session, const Managed<int>& memory) {
  session.run(0, [to = memory.data()] {
    for (int i = 0; i < numbers; ++i) to[i] = i;
  });
  for (int i = 0; i < numbers; ++i) expect(memory[i] == i, "a number is wrong");
}

// State of the handler's latest call.
sigjmp_buf way_out;
std::atomic<int> calls{0};
void* volatile faulted_at = nullptr;
volatile bool on_own_stack = false;
stack_t own_stack;

void jump_out(int, siginfo_t* info, void*) {
  ++calls;
  faulted_at = info->si_addr;
  const char* here = reinterpret_cast<const char*>(&info);
  const char* stack = static_cast<const char*>(own_stack.ss_sp);
  on_own_stack = stack != nullptr && here >= stack && here < stack + own_stack.ss_size;
  siglongjmp(way_out, 1);
}
void jump_out_simply(int) {
  ++calls;
  siglongjmp(way_out, 1);
}

// A page of the program's own whose accesses raise `signal`: it is not accessible, or lies beyond
// the end of a file.
volatile int* forbidden_page(int signal) {
  const int file = ::memfd_create("empty", MFD_CLOEXEC);
  void* const page = signal == SIGSEGV
                         ? ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                         : ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 1 << 20);
  ::close(file);
  expect(page != MAP_FAILED, "no page");
  return static_cast<volatile int*>(page);
}

void write_and_jump_out(volatile int* page) {
  if (sigsetjmp(way_out, 1) == 0) *page = 1;
}
void expect_calls_for(volatile int* page, int more) {
  const int before = calls.load();
  for (int i = 0; i < more; ++i) write_and_jump_out(page);
  expect(calls.load() == before + more, "the handler was not called for each fault");
}

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  sigemptyset(&action.sa_mask);
  expect(::sigaction(signal, &action, nullptr) == 0, "sigaction");
}

}  // namespace

TEST_CASE("a handler of the program from before the start gets its faults, and only those",
          "[system]") {
  const int signal = GENERATE(SIGSEGV, SIGBUS);
  require_passed(in_fresh_process([=] {
    std::vector<char> stack(256 << 10);
    own_stack.ss_sp = stack.data();
    own_stack.ss_size = stack.size();
    expect(::sigaltstack(&own_stack, nullptr) == 0, "sigaltstack");
    install(signal, jump_out, SA_ONSTACK | SA_NODEFER);
    const Session session{one_device};
    const Managed<int> memory{numbers};
    volatile int* const page = forbidden_page(signal);
    for (int round = 0; round < 20; ++round) {
      use(session, memory);
      expect_calls_for(page, 5);
      expect(faulted_at == page, "another address");
      expect(on_own_stack, "the handler did not run on the program's alternate stack");
    }
    expect(calls.load() == 100, "the handler was called for a fault of the library");
  }));
}

TEST_CASE("a handler of the program from after the start gets its faults, and only those",
          "[system]") {
  const int signal = GENERATE(SIGSEGV, SIGBUS);
  require_passed(in_fresh_process([=] {
    const Session session{one_device};
    const Managed<int> memory{numbers};
    volatile int* const page = forbidden_page(signal);
    install(signal, jump_out, 0);
    use(session, memory);
    expect_calls_for(page, 20);
    ::signal(signal, jump_out_simply);
    use(session, memory);
    expect_calls_for(page, 20);
    struct sigaction seen {};
    expect(::sigaction(signal, nullptr, &seen) == 0 && seen.sa_handler == jump_out_simply,
           "sigaction returns another handler");
    use(session, memory);
    expect(calls.load() == 40, "the handler was called for a fault of the library");
  }));
}

TEST_CASE("a crash of the program ends it by its own signal", "[system]") {
  const int signal = GENERATE(SIGSEGV, SIGBUS);
  const Outcome outcome = in_fresh_process([=] {
    const Session session{one_device};
    const Managed<int> memory{numbers};
    ::signal(signal, SIG_DFL);  // removes any handler that the test program has installed
    use(session, memory);
    *forbidden_page(signal) = 1;
  });
  INFO(outcome.describe());
  CHECK(outcome.signal == signal);
}

TEST_CASE("threads that block all signals use managed memory beside one that waits for signals",
          "[system]") {
  require_passed(in_fresh_process([] {
    sigset_t all;
    sigfillset(&all);
    expect(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0, "pthread_sigmask");
    const Session session{one_device};
    expect(pthread_sigmask(SIG_SETMASK, &all, nullptr) == 0, "pthread_sigmask");
    const Managed<int> memory{numbers};
    std::atomic<int> got{0};
    std::thread waiting([&] {
      int signal = 0;
      sigwait(&all, &signal);
      got = signal;
    });
    for (int round = 0; round < 20; ++round) use(session, memory);
    sigset_t blocked;
    pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
    expect(sigismember(&blocked, SIGSEGV) == 1 && sigismember(&blocked, SIGBUS) == 1,
           "the signal mask differs from the one that was set");
    expect(::kill(::getpid(), SIGUSR1) == 0, "kill");
    waiting.join();
    expect(got.load() == SIGUSR1, "another signal");
  }));
}

TEST_CASE("a handler of another signal uses managed memory, whatever it blocks", "[system]") {
  require_passed(in_fresh_process([] {
    const Session session{one_device};
    const Managed<int> memory{numbers};
    use(session, memory);
    session.run(0, [to = memory.data()] { to[0] = 41; });
    static int* counted;
    counted = memory.data();
    struct sigaction action {};
    action.sa_handler = [](int) { ++*counted; };
    sigfillset(&action.sa_mask);
    expect(::sigaction(SIGUSR1, &action, nullptr) == 0, "sigaction");
    expect(::raise(SIGUSR1) == 0, "raise");
    expect(memory[0] == 42, "the handler did not count");
  }));
}

}  // namespace wherry::test::signals_test
