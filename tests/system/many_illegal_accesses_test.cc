// Thousands of threads access memory that they must not access, at once: each gets its signal.
#include <setjmp.h>
#include <signal.h>
#include <wherry/events.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"
#include "support/session.h"
#include "support/waiting.h"

namespace wherry::test::many_illegal_accesses_test {
namespace {

constexpr std::size_t bytes = std::size_t{64} << 20;
constexpr std::size_t page_bytes = 4096;
// After its first answer a thread may access the memory once more; after the second it must have
// its signal. A library that answers the same access again and again exceeds that.
constexpr std::size_t answers_max = 2;

std::vector<const char*> traps() {
  if (why_missing("userfaultfd")) return {"mprotect"};
  return {"mprotect", "sigbus", "userfaultfd"};
}

std::size_t threads_max() {
  return std::max<std::size_t>(1'000, scaled(5'000));
}

thread_local sigjmp_buf back;
thread_local std::uintptr_t expected = 0;
std::atomic<unsigned> signalled{0};
std::atomic<unsigned> elsewhere{0};

void on_signal(int, siginfo_t* info, void*) {
  ++(reinterpret_cast<std::uintptr_t>(info->si_addr) == expected ? signalled : elsewhere);
  siglongjmp(back, 1);
}

// Threads that access memory when they are told to.
class Crowd {
 public:
  Crowd(std::size_t threads, volatile std::byte* memory) {
    struct sigaction action {};
    action.sa_sigaction = on_signal;
    action.sa_flags = SA_SIGINFO;
    expect(::sigaction(SIGBUS, &action, nullptr) == 0, "SIGBUS");
    expect(::sigaction(SIGSEGV, &action, nullptr) == 0, "SIGSEGV");
    for (std::size_t i = 0; i < threads; ++i)
      threads_.emplace_back([this, at = memory + i * 17 * page_bytes % bytes] {
        go_.wait(false);
        // Linux reports the page or the byte.
        expected = reinterpret_cast<std::uintptr_t>(at);
        if (sigsetjmp(back, 1) == 0) {
          (void)*at;
          ++read_;
        }
        ++ended_;
      });
  }

  // Returns when all have accessed the memory, and says how many have read it.
  unsigned access() {
    go_ = true;
    go_.notify_all();
    expect(comes_true([this] { return ended_ == threads_.size(); }, std::chrono::seconds(60)),
           "some threads hang");
    for (std::thread& thread : threads_) thread.join();
    return read_;
  }

 private:
  std::atomic<bool> go_{false};
  std::atomic<unsigned> read_{0};
  std::atomic<unsigned> ended_{0};
  std::vector<std::thread> threads_;
};

// The faults that the library answers while it lives.
class Answers {
 public:
  Answers() { WHERRY_TRY(wherryStartEvents(WHERRY_EVENT_BIT(WHERRY_EVENT_FAULT), kept)); }

  // Call once.
  std::size_t count() const {
    WHERRY_TRY(wherryStopEvents());
    std::uint64_t dropped = 0;
    WHERRY_TRY(wherryCountDroppedEvents(WHERRY_EVENT_FAULT, &dropped));
    return read_events(kept).size() + dropped;
  }

 private:
  static constexpr std::size_t kept = std::size_t{1} << 16;
};

void check_signals(std::size_t threads, unsigned read, std::size_t answers) {
  expect(read == 0, "some threads read it");
  expect(signalled == threads, "some threads got the signal of another address");
  expect(answers <= answers_max * threads,
         "the library answered " + std::to_string(answers) + " faults");
}

}  // namespace

TEST_CASE("each of thousands of threads that read freed memory gets its signal", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  const bool frees_all_the_time = GENERATE(false, true);
  CAPTURE(trap, frees_all_the_time);
  const auto outcome = in_fresh_process([=] {
    ::setenv("WHERRY_TRAP", trap, 1);
    const Session session{"capacity=16M,workers=1"};
    Managed<std::byte> memory{bytes};
    std::byte* const at = memory.data();
    memory[0] = std::byte{1};
    memory.free();
    const std::size_t threads = threads_max();
    Crowd crowd(threads, at);
    std::atomic<bool> done{false};
    std::thread churn([&] {
      WHERRY_TRY(cuCtxSetCurrent(session.context(0)));
      // Freed memory is used again, unless it was accessed since.
      while (frees_all_the_time && !done) {
        const Managed<std::byte> other{page_bytes};
        const Managed<std::byte> large{std::size_t{2} << 20};
        std::this_thread::yield();
      }
    });
    const Answers answers;
    const unsigned read = crowd.access();
    done = true;
    churn.join();
    // The churn thread may have allocated the address again: then an access reads it, rightly.
    if (frees_all_the_time)
      expect(read + signalled == threads && elsewhere == 0, "a thread got a wrong signal");
    else
      check_signals(threads, read, answers.count());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("each of thousands of threads that read a device's own memory gets its signal",
          "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CAPTURE(trap);
  const auto outcome = in_fresh_process([=] {
    ::setenv("WHERRY_TRAP", trap, 1);
    const Session session{"capacity=128M,workers=1;capacity=128M,workers=1"};
    CUdeviceptr own = 0;
    WHERRY_TRY(cuMemAlloc_v2(&own, bytes));
    const std::size_t threads = threads_max();
    Crowd crowd(threads, reinterpret_cast<volatile std::byte*>(own));
    const Answers answers;
    const unsigned read = crowd.access();
    check_signals(threads, read, answers.count());
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

TEST_CASE("thousands of threads that touch memory at once all get their pages", "[system]") {
  const char* const trap = GENERATE_COPY(from_range(traps()));
  CAPTURE(trap);
  const auto outcome = in_fresh_process([=] {
    ::setenv("WHERRY_TRAP", trap, 1);
    const Session session{"capacity=16M,workers=1"};
    const Managed<std::byte> memory{bytes};
    const std::size_t threads = threads_max();
    Crowd crowd(threads, memory.data());
    expect(crowd.access() == threads, "a thread got a signal");
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::many_illegal_accesses_test
