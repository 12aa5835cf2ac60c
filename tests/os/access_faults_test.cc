// The application's signals while the library claims faults on a range. Most cases run one scenario
// in three processes: without a claim, with a claim before the application's own calls, and with
// one after them. The test compares everything that the application sees, and how it ends. "Own"
// memory is the claimed range, "foreign" memory is all other memory. Most scenarios run with memory
// whose faults raise SIGSEGV, and again with memory whose faults raise SIGBUS.
#include "os/signals/access_faults.h"

#include <elf.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/page.h"
#include "os/signals/fatal_signals.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/cpu.h"

// Deprecated functions, and functions for other standards, which still exist.
extern "C" void (*__sysv_signal(int, void (*)(int)) noexcept)(int);
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace wherry::impl::access_faults_test {
namespace {

using test::load_byte;
using test::scaled;
using test::skip_access;
using test::store_byte;

// The signal that closed pages raise. SIGSEGV: they may not be accessed. SIGBUS: they are beyond
// the end of a file.
int fault_signal = SIGSEGV;

class FaultsRaise {
 public:
  explicit FaultsRaise(int signal) { fault_signal = signal; }
  ~FaultsRaise() { fault_signal = SIGSEGV; }
  FaultsRaise(const FaultsRaise&) = delete;
  FaultsRaise& operator=(const FaultsRaise&) = delete;
};

// The real-time signal that the library reserves in a process that claims, where SIGRTMAX is one
// less from then on. The test's own process never claims.
const int stand_in_of_sigbus = SIGRTMAX;

int stand_in() {
  return fault_signal == SIGSEGV ? SIGSTKFLT : stand_in_of_sigbus;
}
int other_signal() {
  return fault_signal == SIGSEGV ? SIGBUS : SIGSEGV;
}
AccessSignal access_signal() {
  return fault_signal == SIGSEGV ? AccessSignal::segv : AccessSignal::bus;
}
std::string fault_name() {
  return "signal " + std::to_string(fault_signal);
}

constexpr std::size_t own_count = 64;
constexpr std::size_t foreign_count = 4;

char* own_pages = nullptr;
char* foreign_pages = nullptr;  // behind the own pages, not accessible
std::atomic<int> reads_resolved = 0;
std::atomic<int> writes_resolved = 0;
std::atomic<bool> claimed = false;

// close_pages() and open_page() may be called in signal handlers.
void close_pages(char* start, std::size_t pages) {
  if (fault_signal == SIGSEGV) {
    ::mprotect(start, pages * page_size, PROT_NONE);
    return;
  }
  static const int empty = ::memfd_create("empty", MFD_CLOEXEC);
  constexpr off_t beyond_end = 1 << 30;  // where the file stays empty even if it is stdout
  if (::mmap(start, pages * page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, empty,
             beyond_end) != start)
    std::abort();
}
// Pages that raise SIGBUS are opened for writing in any case.
bool open_page(char* page, int access) {
  if (fault_signal == SIGSEGV) return ::mprotect(page, page_size, access) == 0;
  return ::mmap(page, page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                -1, 0) == page;
}

bool open_own_page(const AccessFault& fault) {
  ++(fault.write ? writes_resolved : reads_resolved);
  errno = ENOTTY;  // the hook's change of errno must not be visible
  auto* const page = reinterpret_cast<char*>(round_down(fault.address, page_size));
  return open_page(page, fault.write ? PROT_READ | PROT_WRITE : PROT_READ);
}

char* map(std::size_t pages) {
  void* start = ::mmap(nullptr, pages * page_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) std::abort();
  return static_cast<char*>(start);
}

// Contains no assertions and allocates nothing, so handlers can call it.
[[gnu::format(printf, 1, 2)]] void say(const char* format, ...) {
  va_list values;
  va_start(values, format);
  ::vdprintf(STDOUT_FILENO, format, values);
  va_end(values);
  ::dprintf(STDOUT_FILENO, "\n");
}

void claim() {
  claim_access_faults(reinterpret_cast<std::uintptr_t>(own_pages),
                      reinterpret_cast<std::uintptr_t>(own_pages + own_count * page_size),
                      access_signal(), open_own_page);
  close_pages(own_pages, own_count);
  claimed = true;
}

// Writes to own memory, which faults if it is claimed. Prints a line if that went wrong.
void touch_own() {
  static std::atomic<unsigned> next = 0;
  char* page = own_pages + next++ % own_count * page_size;
  if (claimed) close_pages(page, 1);
  const int before = writes_resolved;
  errno = EXDEV;
  store_byte(page, 'x');
  if (*page != 'x' || errno != EXDEV || (claimed && writes_resolved == before))
    say("own memory: value %d, errno %d", *page, errno);
}

// When the scenario's process claims: never, before its first call that concerns signals, or after
// it has set up handlers and masks.
enum class Claim {
  never,
  first,
  last,
};

class Scene {
 public:
  explicit Scene(Claim when) : when_(when) {
    own_pages = map(own_count + foreign_count);
    foreign_pages = own_pages + own_count * page_size;
    close_pages(foreign_pages, foreign_count);
    if (when == Claim::first) claim();
  }
  // To be called once, when the scenario has set up its handlers and masks.
  void start() const {
    if (when_ == Claim::last) claim();
    touch_own();
  }

 private:
  Claim when_;
};

using Scenario = std::function<void(const Scene&)>;

std::string run(Claim when, const Scenario& scenario) {
  return test::in_fresh_process([&] { scenario(Scene(when)); }).describe();
}

// Checks that the scenario has the same result with and without a claim, and returns that result.
std::string same_with_claim(const Scenario& scenario) {
  const std::string without = run(Claim::never, scenario);
  INFO("without a claim: " << without);
  CHECK(run(Claim::first, scenario) == without);
  CHECK(run(Claim::last, scenario) == without);
  return without;
}

bool mentions(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

constexpr std::uint64_t bit_of(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

// The stand-ins are ignored: the library blocks them where the application blocks SIGSEGV or
// SIGBUS.
std::uint64_t shown(const sigset_t& set) {
  std::uint64_t bits;
  std::memcpy(&bits, &set, sizeof bits);
  return bits & ~(bit_of(SIGSTKFLT) | bit_of(stand_in_of_sigbus));
}

std::uint64_t current_mask() {
  sigset_t set;
  sigemptyset(&set);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &set);
  return shown(set);
}

sigset_t set_of(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  return set;
}

sigset_t full_set() {
  sigset_t set;
  sigfillset(&set);
  return set;
}

struct sigaction action_with(void (*handler)(int, siginfo_t*, void*), int flags,
                             sigset_t mask = set_of({})) {
  struct sigaction action {};
  action.sa_sigaction = handler;
  action.sa_flags = SA_SIGINFO | flags;
  action.sa_mask = mask;
  return action;
}

void install(int signal, void (*handler)(int, siginfo_t*, void*), int flags,
             sigset_t mask = set_of({})) {
  const struct sigaction action = action_with(handler, flags, mask);
  ::sigaction(signal, &action, nullptr);
}

bool on_alternate_stack() {
  stack_t stack{};
  ::sigaltstack(nullptr, &stack);
  return (stack.ss_flags & SS_ONSTACK) != 0;
}

// For signals other than SIGSEGV and SIGBUS, which the library takes, the handler gets the mask
// that Linux saved, so it is not printed.
void tell(int signal, const siginfo_t* info, const ucontext_t* context) {
  const bool sent = info->si_code <= 0;
  const bool taken = signal == SIGSEGV || signal == SIGBUS;
  say("signal %d: %d, code %d, address %#lx, mask %#lx, before %#lx, alternate %d", signal,
      info->si_signo, info->si_code, sent ? 0 : reinterpret_cast<unsigned long>(info->si_addr),
      current_mask(), taken ? shown(context->uc_sigmask) : 0, on_alternate_stack());
}

void tell_and_skip(int signal, siginfo_t* info, void* pointer) {
  auto* context = static_cast<ucontext_t*>(pointer);
  tell(signal, info, context);
  touch_own();
  skip_access(*context);
}

void tell_signal(int signal, siginfo_t* info, void* pointer) {
  tell(signal, info, static_cast<ucontext_t*>(pointer));
  touch_own();
}

void open_foreign(int signal) {
  say("signal %d, mask %#lx, alternate %d", signal, current_mask(), on_alternate_stack());
  touch_own();
  open_page(foreign_pages, PROT_READ | PROT_WRITE);
}

void close_foreign() {
  close_pages(foreign_pages, 1);
}

template <typename Body>
void in_thread(Body body) {
  std::thread(body).join();
}

TEST_CASE("Faults on claimed memory are resolved, and reads are told from writes") {
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    const auto counts_after = [](const char* what, auto access) {
      const int reads = reads_resolved;
      const int writes = writes_resolved;
      access();
      say("%s: %d %d", what, reads_resolved - reads, writes_resolved - writes);
    };
    counts_after("read", [] { load_byte(own_pages); });
    counts_after("read again", [] { load_byte(own_pages); });
    counts_after("write", [] { store_byte(own_pages, 1); });
    counts_after("write first", [] { store_byte(own_pages + page_size, 1); });
    counts_after("update", [] {
      reinterpret_cast<std::atomic<int>*>(own_pages + 2 * page_size)->fetch_add(1);
    });
    counts_after("the last byte", [] { load_byte(own_pages + own_count * page_size - 1); });
    ::munmap(own_pages + 3 * page_size, page_size);
    static int unmapped = 0;
    claim_access_faults(reinterpret_cast<std::uintptr_t>(own_pages),
                        reinterpret_cast<std::uintptr_t>(own_pages) + own_count * page_size,
                        AccessSignal::segv, [](const AccessFault& fault) {
                          ++unmapped;
                          void* place = reinterpret_cast<void*>(fault.address);
                          return ::mmap(place, page_size, PROT_READ,
                                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == place;
                        });
    counts_after("replaced", [] { load_byte(own_pages + 3 * page_size); });
    say("unmapped: %d", unmapped);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.out ==
        "read: 1 0\nread again: 0 0\nwrite: 0 1\nwrite first: 0 1\nupdate: 0 1\n"
        "the last byte: 1 0\nreplaced: 0 0\nunmapped: 1\n");
}

TEST_CASE("Faults that raise SIGBUS are resolved in the same way") {
  const FaultsRaise which(SIGBUS);
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    load_byte(own_pages);
    say("%d %d", reads_resolved.load(), writes_resolved.load());
    store_byte(own_pages + page_size, 1);
    reinterpret_cast<std::atomic<int>*>(own_pages + 2 * page_size)->fetch_add(1);
    say("%d %d", reads_resolved.load(), writes_resolved.load());
    load_byte(own_pages + own_count * page_size - 1);
    say("%d %d", reads_resolved.load(), writes_resolved.load());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.out == "1 0\n1 2\n2 2\n");
}

TEST_CASE("A claim leaves faults that raise the other signal to the application") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    install(other_signal(), tell_and_skip, 0);
    scene.start();
    if (claimed)
      claim_access_faults(0, ~std::uintptr_t{0}, access_signal(),
                          [](const AccessFault& fault) { return open_own_page(fault); });
    fault_signal = other_signal();
    close_foreign();
    fault_signal = other_signal();
    load_byte(foreign_pages);
  });
  CHECK(mentions(text, "signal " + std::to_string(other_signal())));
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE("The application gets faults that the hook refuses, and a jump into claimed memory") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto refused = [](const Scene& scene) {
    install(fault_signal, tell_and_skip, 0);
    scene.start();
    if (claimed) {
      claim_access_faults(reinterpret_cast<std::uintptr_t>(own_pages),
                          reinterpret_cast<std::uintptr_t>(foreign_pages) + page_size,
                          access_signal(), [](const AccessFault& fault) {
                            return fault.address < reinterpret_cast<std::uintptr_t>(own_pages) +
                                                       own_count * page_size &&
                                   open_own_page(fault);
                          });
    }
    load_byte(foreign_pages);
  };
  CHECK(mentions(same_with_claim(refused), "exit code 0"));
  const auto jump = [](const Scene& scene) {
    scene.start();
    open_page(own_pages, PROT_READ);
    reinterpret_cast<void (*)()>(own_pages)();
  };
  CHECK(mentions(same_with_claim(jump), "signal 11"));
}

TEST_CASE("A handler gets the same signal, information, masks and stack as without a claim") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const int flag_sets[] = {0, SA_NODEFER, SA_ONSTACK, SA_ONSTACK | SA_NODEFER,
                           static_cast<int>(SA_RESETHAND)};
  const auto non_canonical = reinterpret_cast<void*>(test::no_such_address);
  for (const int flags : flag_sets) {
    for (const bool alternate : {false, true}) {
      for (const bool masked : {false, true}) {
        CAPTURE(flags, alternate, masked);
        const auto text = same_with_claim([&](const Scene& scene) {
          std::unique_ptr<AlternateStack> stack;
          if (alternate) stack = std::make_unique<AlternateStack>();
          const sigset_t blocked = set_of({SIGUSR2, SIGTERM});
          ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
          install(fault_signal, tell_and_skip, flags,
                  masked ? set_of({SIGUSR1, SIGINT, SIGRTMIN}) : set_of({}));
          scene.start();
          store_byte(foreign_pages + 5, 1);
          say("mask %#lx", current_mask());
          install(fault_signal, tell_and_skip, flags,
                  masked ? full_set() : set_of({other_signal()}));
          load_byte(foreign_pages + page_size);
          touch_own();
          install(fault_signal, tell_and_skip, flags);
          if (fault_signal == SIGSEGV) load_byte(non_canonical);
          touch_own();
          say("mask %#lx, alternate %d", current_mask(), on_alternate_stack());
        });
        CHECK(mentions(text, "exit code 0"));
        CHECK(mentions(text, alternate && (flags & SA_ONSTACK) != 0 ? "alternate 1" : "code 2"));
      }
    }
  }
}

TEST_CASE("Handlers without SA_SIGINFO work, however they were installed") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const struct {
    const char* name;
    void (*(*install)(int, void (*)(int)) noexcept)(int);
  } ways[] = {{"signal", ::signal},
              {"bsd_signal", ::ssignal},
              {"sysv_signal", ::__sysv_signal},
              {"sigset", ::sigset}};
  for (const auto& way : ways) {
    INFO(way.name);
    const auto text = same_with_claim([&](const Scene& scene) {
      const auto name = [](void (*handler)(int)) {
        return handler == SIG_DFL ? "default" : handler == open_foreign ? "ours" : "other";
      };
      say("was %s", name(way.install(fault_signal, open_foreign)));
      scene.start();
      load_byte(foreign_pages);
      say("is %s", name(way.install(fault_signal, open_foreign)));
      close_foreign();
      load_byte(foreign_pages);
      say("%s", name(way.install(fault_signal, SIG_DFL)));
    });
    CHECK(mentions(text, "exit code 0"));
    CHECK(mentions(text, "was default"));
  }
}

TEST_CASE("sigaction() returns the action that the application set") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  same_with_claim([](const Scene& scene) {
    const auto tell_action = [](int signal) {
      constexpr int restorer = 0x04000000;  // set by the C library
      struct sigaction action {};
      const int result = ::sigaction(signal, nullptr, &action);
      say("%d %d: handler %d, flags %#x, mask %#lx", signal, result,
          action.sa_sigaction == tell_signal     ? 3
          : action.sa_sigaction == tell_and_skip ? 2
          : action.sa_handler == SIG_IGN         ? 1
          : action.sa_handler == SIG_DFL         ? 0
                                                 : -1,
          action.sa_flags & ~restorer, shown(action.sa_mask));
    };
    tell_action(fault_signal);
    tell_action(stand_in());
    install(fault_signal, tell_and_skip, SA_ONSTACK | SA_NODEFER, set_of({SIGUSR1, fault_signal}));
    install(SIGUSR1, tell_signal, SA_RESTART, full_set());
    install(stand_in(), tell_signal, 0);
    scene.start();
    for (const int signal : {fault_signal, SIGUSR1, stand_in()}) tell_action(signal);
    struct sigaction before {};
    const struct sigaction after = action_with(tell_signal, SA_RESTART, set_of({fault_signal}));
    for (const int signal : {fault_signal, SIGUSR1, stand_in()}) {
      ::sigaction(signal, &after, &before);
      say("%d", before.sa_sigaction == (signal == fault_signal ? tell_and_skip : tell_signal));
      tell_action(signal);
    }
    ::sigignore(fault_signal);
    tell_action(fault_signal);
    ::raise(stand_in());
    say("%d %d", ::sigaction(SIGKILL, &after, nullptr), errno);
  });
}

TEST_CASE("Signal masks are returned as they were set, in new threads and forked processes too") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  same_with_claim([](const Scene& scene) {
    const auto step = [](int how, sigset_t set) {
      sigset_t before = set_of({});
      const int result = ::sigprocmask(how, &set, &before);
      say("%d: before %#lx, now %#lx", result, shown(before), current_mask());
      touch_own();
    };
    const auto word_of = [](int signal) { return static_cast<int>(bit_of(signal)); };
    scene.start();
    step(SIG_BLOCK, set_of({fault_signal}));
    in_thread([] {
      say("thread %#lx", current_mask());
      touch_own();
    });
    step(SIG_BLOCK, full_set());
    step(SIG_UNBLOCK, set_of({SIGUSR1}));
    step(SIG_UNBLOCK, set_of({SIGSEGV, SIGBUS}));
    step(SIG_SETMASK, set_of({fault_signal, SIGINT}));
    in_thread([] {
      say("thread %#lx", current_mask());
      touch_own();
    });
    if (const pid_t child = ::fork(); child == 0) {
      say("child %#lx", current_mask());
      ::_exit(0);
    } else {
      ::waitpid(child, nullptr, 0);
    }
    step(SIG_SETMASK, set_of({}));
    say("%#x", ::sigblock(word_of(fault_signal) | word_of(SIGINT)) & ~word_of(SIGSTKFLT));
    say("%#x", ::siggetmask() & ~word_of(SIGSTKFLT));
    touch_own();
    say("%#x", ::sigsetmask(0) & ~word_of(SIGSTKFLT));
    ::sighold(fault_signal);
    say("%#lx", current_mask());
    say("%d", ::sigset(fault_signal, SIG_HOLD) == SIG_HOLD);
    touch_own();
    ::sigrelse(fault_signal);
    say("%#lx", current_mask());
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    sigset_t set = full_set();
    ::pthread_attr_setsigmask_np(&attributes, &set);
    set = set_of({});
    ::pthread_attr_getsigmask_np(&attributes, &set);
    say("attribute %#lx", shown(set));
    pthread_t thread;
    ::pthread_create(
        &thread, &attributes,
        [](void*) -> void* {
          say("thread %#lx", current_mask());
          touch_own();
          return nullptr;
        },
        nullptr);
    ::pthread_join(thread, nullptr);
  });
}

sigjmp_buf jump_target;

void jump_out(int signal, siginfo_t* info, void* context) {
  tell(signal, info, static_cast<ucontext_t*>(context));
  touch_own();
  ::siglongjmp(jump_target, 1);
}

TEST_CASE("Handlers may be left by siglongjmp, again and again") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  for (const int flags : {0, SA_NODEFER, SA_ONSTACK}) {
    CAPTURE(flags);
    const auto text = same_with_claim([&](const Scene& scene) {
      const AlternateStack stack;
      install(fault_signal, jump_out, flags, set_of({SIGUSR1}));
      scene.start();
      static int returns = 0;
      for (static int i = 0; i < 100; ++i) {
        if (::sigsetjmp(jump_target, 1) == 0) {
          load_byte(foreign_pages + i);
        } else {
          ++returns;
          touch_own();
        }
      }
      say("%d returns, mask %#lx, alternate %d", returns, current_mask(), on_alternate_stack());
      touch_own();
    });
    CHECK(mentions(text, "100 returns"));
  }
  // If the mask is not restored, the second fault finds its signal blocked.
  const auto text = same_with_claim([](const Scene& scene) {
    install(fault_signal, jump_out, 0);
    scene.start();
    for (static int i = 0; i < 2; ++i) {
      if (::sigsetjmp(jump_target, 0) == 0) load_byte(foreign_pages + i);
      say("mask %#lx", current_mask());
      touch_own();
    }
  });
  CHECK(mentions(text, fault_name()));
}

[[gnu::noinline]] int use_stack(int frames) {
  volatile char frame[256];
  frame[0] = 1;
  return frames == 0 ? 0 : use_stack(frames - 1) + frame[0];
}

// Overflows the main thread's stack, after reducing its limit.
void overflow_stack() {
  const rlimit limit{1 << 20, 1 << 20};
  ::setrlimit(RLIMIT_STACK, &limit);
  use_stack(1 << 20);
}

TEST_CASE("A stack overflow reaches a handler on an alternate stack") {
  const auto text = same_with_claim([](const Scene& scene) {
    install(SIGSEGV, jump_out, SA_ONSTACK);
    scene.start();
    const AlternateStack stack;
    if (::sigsetjmp(jump_target, 1) == 0) overflow_stack();
    say("mask %#lx, alternate %d", current_mask(), on_alternate_stack());
    touch_own();
  });
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE("What a handler changes in the interrupted context takes effect") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    install(
        fault_signal,
        [](int, siginfo_t*, void* pointer) {
          auto* context = static_cast<ucontext_t*>(pointer);
          skip_access(*context);
          sigaddset(&context->uc_sigmask, fault_signal);
          sigaddset(&context->uc_sigmask, SIGUSR1);
        },
        0);
    scene.start();
    load_byte(foreign_pages);
    say("mask %#lx", current_mask());
    touch_own();
    load_byte(foreign_pages);  // the signal is blocked now
  });
  CHECK(mentions(text, fault_name()));
}

TEST_CASE("After a handler that repairs the cause and returns, the access is repeated") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    ::signal(fault_signal, open_foreign);
    scene.start();
    for (int i = 0; i < 20; ++i) {
      close_foreign();
      touch_own();
      store_byte(foreign_pages, static_cast<unsigned char>(i));
      say("%d", *foreign_pages);
    }
  });
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE("Claimed memory can be accessed in handlers that block every signal") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    for (const int signal : {SIGUSR1, SIGSEGV, SIGRTMIN, SIGBUS})
      install(signal, tell_signal, 0, full_set());
    scene.start();
    for (const int signal : {SIGUSR1, SIGSEGV, SIGRTMIN, SIGBUS}) ::raise(signal);
    install(SIGUSR2, tell_signal, 0, full_set());
    ::raise(SIGUSR2);
  });
  CHECK(mentions(text, "signal 34"));
}

TEST_CASE("Claimed memory can be accessed in handlers that run during a wait under a full mask") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    install(SIGUSR1, tell_signal, 0);
    const sigset_t full = full_set();
    ::pthread_sigmask(SIG_BLOCK, &full, nullptr);
    scene.start();
    sigset_t but_one = full_set();
    sigdelset(&but_one, SIGUSR1);
    const timespec limit{20, 0};
    const auto expect_interrupted = [](int result) { say("%d %d", result, errno); };
    ::raise(SIGUSR1);
    expect_interrupted(::sigsuspend(&but_one));
    ::raise(SIGUSR1);
    expect_interrupted(::ppoll(nullptr, 0, &limit, &but_one));
    ::raise(SIGUSR1);
    expect_interrupted(::pselect(0, nullptr, nullptr, nullptr, &limit, &but_one));
    const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    ::raise(SIGUSR1);
    expect_interrupted(::epoll_pwait(epoll, &event, 1, 20'000, &but_one));
    ::raise(SIGUSR1);
    expect_interrupted(::epoll_pwait2(epoll, &event, 1, &limit, &but_one));
    ::close(epoll);
  });
  CHECK(mentions(text, "-1 4"));
}

TEST_CASE("Threads that block all signals access claimed memory, beside one in sigwait") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    const sigset_t all = full_set();
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    scene.start();
    std::thread waiter([&all] {
      touch_own();
      int signal = 0;
      const int result = ::sigwait(&all, &signal);
      touch_own();
      say("waited: %d, signal %d", result, signal);
    });
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) {
      threads.emplace_back([] {
        for (int j = 0; j < 10; ++j) touch_own();
      });
    }
    for (auto& thread : threads) thread.join();
    ::kill(::getpid(), SIGTERM);
    waiter.join();
  });
  CHECK(mentions(text, "waited: 0, signal 15"));
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE("A thread with the smallest stack accesses claimed memory") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    scene.start();
    pthread_attr_t attributes;
    ::pthread_attr_init(&attributes);
    say("%d", ::pthread_attr_setstacksize(
                  &attributes, static_cast<std::size_t>(::sysconf(_SC_THREAD_STACK_MIN))));
    pthread_t thread;
    ::pthread_create(
        &thread, &attributes,
        [](void*) -> void* {
          if (claimed) close_pages(own_pages, 1);
          load_byte(own_pages);
          store_byte(own_pages, 1);
          return nullptr;
        },
        nullptr);
    say("%d", ::pthread_join(thread, nullptr));
  });
  CHECK(mentions(text, "exit code 0"));
}

// The end of a process as its tracer sees it, which is also what a core dump shows: the last
// signal, and the address of the instruction.
struct End {
  int status = 0;
  siginfo_t info{};
  std::uintptr_t place = 0;

  std::string describe() const {
    char text[128];
    std::snprintf(text, sizeof text, "status %#x, signal %d, code %d, address %p, at %#lx",
                  static_cast<unsigned>(status), info.si_signo, info.si_code,
                  info.si_code > 0 ? info.si_addr : nullptr, place);
    return text;
  }
};

std::uintptr_t place_of(pid_t traced) {
  user_regs_struct registers{};
  iovec where{&registers, sizeof registers};
  ::ptrace(PTRACE_GETREGSET, traced, NT_PRSTATUS, &where);
  return test::instruction_of(registers);
}

End end_of(Claim when, const Scenario& scenario) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
    ::alarm(60);
    ::close(STDOUT_FILENO);
    ::ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    scenario(Scene(when));
    ::_exit(0);
  }
  End end;
  while (::waitpid(child, &end.status, __WALL) == child && WIFSTOPPED(end.status)) {
    ::ptrace(PTRACE_GETSIGINFO, child, nullptr, &end.info);
    end.place = place_of(child);
    ::ptrace(PTRACE_CONT, child, nullptr, WSTOPSIG(end.status));
  }
  return end;
}

TEST_CASE("A crash ends the process by its signal, and the core shows the crash") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto crash = [] { store_byte(foreign_pages + 7, 1); };
  struct Way {
    const char* name;
    std::function<void()> prepare;
    std::function<void()> crash;
    int signal = fault_signal;
  };
  const Way ways[] = {
      {"default", [] {}, crash},
      {"ignored", [] { ::signal(fault_signal, SIG_IGN); }, crash},
      {"blocked",
       [] {
         const sigset_t all = full_set();
         install(fault_signal, tell_and_skip, 0);
         ::sigprocmask(SIG_BLOCK, &all, nullptr);
       },
       crash},
      {"the default again",
       [] { install(fault_signal, tell_and_skip, static_cast<int>(SA_RESETHAND)); },
       [&] {
         load_byte(foreign_pages);
         crash();
       }},
      {"in the handler",
       [] {
         install(
             fault_signal, [](int, siginfo_t*, void*) { load_byte(foreign_pages + page_size); }, 0);
       },
       crash},
      {"the handler gives up",
       [] {
         install(
             fault_signal, [](int, siginfo_t*, void*) { ::signal(fault_signal, SIG_DFL); }, 0);
       },
       crash},
      {"the handler raises",
       [] {
         install(
             fault_signal,
             [](int signal, siginfo_t*, void*) {
               ::signal(fault_signal, SIG_DFL);
               ::raise(signal);
             },
             0);
       },
       crash},
      {"stack overflow", [] { install(SIGSEGV, tell_and_skip, 0); }, overflow_stack, SIGSEGV},
      {"no such address", [] {}, [] { load_byte(reinterpret_cast<void*>(test::no_such_address)); },
       SIGSEGV},
  };
  for (const auto& way : ways) {
    INFO(way.name);
    const Scenario scenario = [&way](const Scene& scene) {
      way.prepare();
      scene.start();
      way.crash();
    };
    const End without = end_of(Claim::never, scenario);
    CHECK(WIFSIGNALED(without.status));
    CHECK(WTERMSIG(without.status) == way.signal);
    CHECK(end_of(Claim::first, scenario).describe() == without.describe());
    CHECK(end_of(Claim::last, scenario).describe() == without.describe());
  }
}

TEST_CASE("A stack overflow without a handler is a crash at the same place") {
  const Scenario scenario = [](const Scene& scene) {
    scene.start();
    overflow_stack();
  };
  const End without = end_of(Claim::never, scenario);
  for (const Claim when : {Claim::first, Claim::last}) {
    // Linux has no space on the stack for the library's handler either, and reports that instead of
    // the address.
    const End end = end_of(when, scenario);
    CHECK(end.status == without.status);
    CHECK(end.place == without.place);
  }
}

TEST_CASE("A crash whose cause another thread removes is still a crash") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    claim_access_faults(reinterpret_cast<std::uintptr_t>(own_pages),
                        reinterpret_cast<std::uintptr_t>(own_pages) + page_size, access_signal(),
                        [](const AccessFault& fault) {
                          open_own_page(fault);
                          return false;
                        });
    load_byte(own_pages);
  });
  INFO(outcome.describe());
  CHECK(outcome.signal == fault_signal);
}

TEST_CASE("A fault's signal that is sent ends, is ignored or is handled as without a claim") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto sent = [](void (*prepare)()) {
    return same_with_claim([prepare](const Scene& scene) {
      prepare();
      scene.start();
      ::kill(::getpid(), fault_signal);
      say("after kill");
      touch_own();
      ::raise(fault_signal);
      touch_own();
      in_thread([] {
        ::raise(fault_signal);
        touch_own();
      });
    });
  };
  CHECK(mentions(sent([] {}), fault_name()));
  CHECK(mentions(sent([] { ::signal(fault_signal, SIG_IGN); }), "exit code 0"));
  CHECK(mentions(sent([] { install(fault_signal, tell_signal, 0, set_of({SIGUSR1})); }),
                 "exit code 0"));
  CHECK(mentions(sent([] { install(fault_signal, tell_signal, static_cast<int>(SA_RESETHAND)); }),
                 fault_name()));
}

TEST_CASE(
    "A fault's signal that is sent to a thread that blocks it waits until it is unblocked or "
    "taken") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const sigset_t only = set_of({fault_signal});
  const auto blocked = [only](void (*prepare)(), auto continuation) {
    return same_with_claim([=](const Scene& scene) {
      prepare();
      ::sigprocmask(SIG_BLOCK, &only, nullptr);
      scene.start();
      for (const bool to_thread : {false, true}) {
        if (to_thread)
          ::raise(fault_signal);
        else
          ::kill(::getpid(), fault_signal);
        touch_own();
        sigset_t pending = set_of({});
        ::sigpending(&pending);
        say("pending %d", sigismember(&pending, fault_signal));
        continuation();
        ::sigpending(&pending);
        say("pending %d", sigismember(&pending, fault_signal));
        ::sigprocmask(SIG_BLOCK, &only, nullptr);
      }
    });
  };
  const auto handled = [] { install(fault_signal, tell_signal, 0); };
  const auto open = [only] { ::sigprocmask(SIG_UNBLOCK, &only, nullptr); };
  CHECK(mentions(blocked(handled, open), "exit code 0"));
  CHECK(mentions(blocked([] {}, open), fault_name()));
  const auto ignore_and_open = [open] {
    ::signal(fault_signal, SIG_IGN);
    open();
    install(fault_signal, tell_signal, 0);
  };
  CHECK(mentions(blocked(handled, ignore_and_open), "exit code 0"));
  const auto wait = [only] {
    siginfo_t info{};
    const timespec limit{20, 0};
    const int result = ::sigtimedwait(&only, &info, &limit);
    say("took %d: %d, code %d, errno %d, by us %d", result, info.si_signo, info.si_code,
        info.si_errno, info.si_pid == ::getpid());
  };
  CHECK(mentions(blocked(handled, wait), "took " + std::to_string(fault_signal)));
  const auto take = [only] {
    int signal = 0;
    const int result = ::sigwait(&only, &signal);
    say("took %d: %d", result, signal);
  };
  CHECK(mentions(blocked([] {}, take), "took 0: " + std::to_string(fault_signal)));
  // Only one thread of the process does not block the signal: that thread gets it, not the main
  // thread, which Linux tries first.
  const auto other = same_with_claim([only](const Scene& scene) {
    static std::atomic<bool> done = false;
    install(
        fault_signal,
        [](int signal, siginfo_t* info, void* context) {
          tell_signal(signal, info, context);
          say("in the main thread %d", ::gettid() == ::getpid());
          done = true;
        },
        0);
    scene.start();
    static std::atomic<bool> waits = false;
    std::thread thread([] {
      waits = true;
      while (!done) ::usleep(100);
    });
    ::sigprocmask(SIG_BLOCK, &only, nullptr);
    while (!waits) ::usleep(100);
    ::kill(::getpid(), fault_signal);
    thread.join();
  });
  CHECK(mentions(other, "in the main thread 0"));
}

TEST_CASE("SIGBUS goes to the application as without a claim") {
  const auto text = same_with_claim([](const Scene& scene) {
    install(SIGSEGV, tell_and_skip, 0);
    install(SIGBUS, tell_and_skip, SA_ONSTACK);
    scene.start();
    const int file = ::memfd_create("short", MFD_CLOEXEC);
    void* beyond = ::mmap(foreign_pages, page_size, PROT_READ, MAP_SHARED | MAP_FIXED, file, 0);
    load_byte(beyond);
    load_byte(foreign_pages + page_size);
    ::close(file);
  });
  CHECK(mentions(text, "signal 7: 7, code 2"));
  CHECK(mentions(text, "signal 11: 11, code 2"));
}

// Linux can send this SIGBUS for failed memory that no thread has accessed yet (PR_MCE_KILL).
TEST_CASE("A report of failed memory waits while SIGBUS is blocked") {
  const auto reported = [](bool ignored) {
    return same_with_claim([ignored](const Scene& scene) {
      const sigset_t only = set_of({SIGBUS});
      install(SIGBUS, tell_signal, 0);
      ::sigprocmask(SIG_BLOCK, &only, nullptr);
      scene.start();
      siginfo_t info{};
      info.si_signo = SIGBUS;
      info.si_code = BUS_MCEERR_AO;
      info.si_addr = foreign_pages;
      ::syscall(SYS_rt_tgsigqueueinfo, ::getpid(), ::gettid(), SIGBUS, &info);
      if (ignored) ::signal(SIGBUS, SIG_IGN);
      say("blocked");
      ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
      say("unblocked");
    });
  };
  CHECK(mentions(reported(false), "blocked\nsignal 7: 7, code 5"));
  CHECK(mentions(reported(true), "blocked\nunblocked"));
}

TEST_CASE("A SIGBUS that is sent twice while it is blocked is delivered once") {
  const auto text = same_with_claim([](const Scene& scene) {
    const sigset_t only = set_of({SIGBUS});
    install(SIGBUS, tell_signal, 0);
    ::sigprocmask(SIG_BLOCK, &only, nullptr);
    scene.start();
    ::kill(::getpid(), SIGBUS);
    ::kill(::getpid(), SIGBUS);
    ::sigprocmask(SIG_UNBLOCK, &only, nullptr);
  });
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE(
    "A claim unblocks both signals for its caller, and for other threads at their next change") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::never);
    const sigset_t all = full_set();
    ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
    std::atomic<int> step = 0;
    std::thread other([&] {
      step = 1;
      step.notify_all();
      step.wait(1);
      const sigset_t only = set_of({fault_signal});
      ::pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
      touch_own();
      ::pthread_sigmask(SIG_SETMASK, &all, nullptr);
      touch_own();
    });
    step.wait(0);
    claim();
    touch_own();
    claim();
    touch_own();
    sigset_t mask = set_of({});
    ::pthread_sigmask(SIG_BLOCK, nullptr, &mask);
    say("blocked %d", sigismember(&mask, fault_signal));
    step = 2;
    step.notify_all();
    other.join();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.out == "blocked 1\n");
}

TEST_CASE("In a forked child the application's handlers still work, and it may claim for itself") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    install(fault_signal, tell_and_skip, 0);
    const auto wait_for = [](pid_t child) {
      int status = 0;
      ::waitpid(child, &status, 0);
      say("exit %d, signal %d", WIFEXITED(status) ? WEXITSTATUS(status) : -1,
          WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    };
    if (const pid_t child = ::fork(); child == 0) {
      load_byte(foreign_pages);
      ::signal(fault_signal, SIG_DFL);
      load_byte(foreign_pages);
      ::_exit(0);
    } else {
      wait_for(child);
    }
    if (const pid_t child = ::fork(); child == 0) {
      static int resolved_here = 0;
      claim_access_faults(reinterpret_cast<std::uintptr_t>(foreign_pages),
                          reinterpret_cast<std::uintptr_t>(foreign_pages) + page_size,
                          access_signal(), [](const AccessFault&) {
                            ++resolved_here;
                            return open_page(foreign_pages, PROT_READ);
                          });
      catch_fatal_signals([](const FatalSignal& what) -> bool {
        say("fatal: %d, the place %d, invalid access %d", what.signal,
            what.address == reinterpret_cast<std::uintptr_t>(own_pages), what.invalid_access);
        ::_exit(5);
      });
      load_byte(foreign_pages);
      say("resolved %d", resolved_here);
      close_pages(own_pages, 1);
      load_byte(own_pages);
      ::_exit(0);
    } else {
      wait_for(child);
    }
    load_byte(foreign_pages + page_size);
    touch_own();
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(mentions(outcome.out, "exit -1, " + fault_name() + "\n"));
  CHECK(mentions(outcome.out, "resolved 1\nfatal: " + std::to_string(fault_signal) +
                                  ", the place 1, invalid access 1\nexit 5"));
  CHECK_FALSE(mentions(outcome.out, "own memory"));
}

TEST_CASE("A child of vfork() that resets its signals does not reset its parent's") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto text = same_with_claim([](const Scene& scene) {
    install(fault_signal, tell_and_skip, 0);
    scene.start();
    const pid_t child = ::vfork();
    if (child == 0) {
      const sigset_t all = full_set();
      ::sigprocmask(SIG_BLOCK, &all, nullptr);
      for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
      ::_exit(0);
    }
    ::waitpid(child, nullptr, 0);
    load_byte(foreign_pages);
    say("mask %#lx", current_mask());
    touch_own();
  });
  CHECK(mentions(text, "exit code 0"));
}

TEST_CASE("Faults of a child of vfork() are resolved after it has reset its signals") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    const pid_t child = ::vfork();
    if (child == 0) {
      // As programs do before they execute another one.
      for (int signal = 1; signal < 32; ++signal) {
        struct sigaction action {};
        if (::sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN ||
            action.sa_handler == SIG_DFL)
          continue;
        ::signal(signal, SIG_DFL);
      }
      ::signal(fault_signal, SIG_DFL);
      load_byte(own_pages);
      ::_exit(5);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    say("exited %d, code %d", WIFEXITED(status), WEXITSTATUS(status));
  });
  INFO(outcome.describe());
  CHECK(mentions(outcome.out, "exited 1, code 5"));
}

TEST_CASE("Faults, crashes that are caught, and changes of the action work concurrently") {
  const FaultsRaise which(GENERATE(SIGSEGV, SIGBUS));
  const auto outcome = test::in_fresh_process([] {
    const Scene scene(Claim::first);
    static std::atomic<int> caught = 0;
    static const auto catch_and_skip = [](int, siginfo_t*, void* context) {
      ++caught;
      skip_access(*static_cast<ucontext_t*>(context));
    };
    const auto other_handler = [](int, siginfo_t*, void* context) {
      catch_and_skip(0, nullptr, context);
    };
    install(fault_signal, catch_and_skip, 0);
    const auto rounds = static_cast<int>(scaled(20'000));
    std::atomic<bool> stop = false;
    std::thread changer([&] {
      for (unsigned i = 0; !stop; ++i) {
        const bool other = i % 2 == 0;
        install(fault_signal, other ? other_handler : catch_and_skip, i % 3 == 0 ? SA_ONSTACK : 0);
        struct sigaction now {};
        ::sigaction(fault_signal, nullptr, &now);
        if (now.sa_sigaction != (other ? +other_handler : +catch_and_skip)) say("lost a change");
      }
    });
    std::vector<std::thread> threads;
    for (std::size_t t = 0; t < 4; ++t) {
      threads.emplace_back([=] {
        char* page = own_pages + t * page_size;
        for (int i = 0; i < rounds; ++i) {
          close_pages(page, 1);
          store_byte(page, static_cast<unsigned char>(i));
          load_byte(foreign_pages + t * page_size);
        }
      });
    }
    for (auto& thread : threads) thread.join();
    stop = true;
    changer.join();
    say("caught %d, resolved %d", caught == 4 * rounds, writes_resolved == 4 * rounds);
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
  CHECK(outcome.out == "caught 1, resolved 1\n");
}

}  // namespace
}  // namespace wherry::impl::access_faults_test
