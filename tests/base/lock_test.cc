// The lock order and its check; and that signals are delayed while a lock of the fault path is
// held.
#include "base/lock.h"

#include <pthread.h>
#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>

#include "os/process/condition.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/session.h"

namespace wherry::test::lock_test {

using namespace wherry::impl;
using wherry::test::expect;
using wherry::test::in_fresh_process;
using wherry::test::Outcome;
using namespace std::chrono_literals;

namespace {

// Checks that the body ends the process with a line that contains both words.
void requires_abort(const std::function<void()>& body, const std::string& one,
                    const std::string& other) {
  if (!checks_locks) return;  // a release build
  const Outcome outcome = in_fresh_process(body);
  INFO(outcome.describe());
  CHECK(outcome.signal == SIGABRT);
  CHECK(outcome.err.find("'" + one + "'") != std::string::npos);
  CHECK(outcome.err.find("'" + other + "'") != std::string::npos);
}

void handle(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  expect(::sigaction(signal, &action, nullptr) == 0, "sigaction");
}

std::atomic<int> signals = 0;

// Starts counting SIGUSR1.
void count_signals() {
  signals = 0;
  handle(SIGUSR1, [](int) { ++signals; });
}

bool blocks(int signal) {
  sigset_t now;
  ::pthread_sigmask(SIG_SETMASK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

}  // namespace

TEST_CASE("locks may be taken in their order, and released in any order", "[base]") {
  Mutex outer(LockOrder::engine);
  Mutex middle(LockOrder::block);
  SharedMutex inner(LockOrder::mapper);
  for (int i = 0; i < 3; ++i) {
    outer.lock();
    middle.lock();
    inner.lock_shared();
    middle.unlock();
    outer.unlock();
    inner.unlock_shared();
  }
  const LockGuard guard(middle);
  const WriteGuard more(inner);
}

TEST_CASE("a lock out of order ends the process, and the message names both locks", "[base]") {
  requires_abort(
      [] {
        Mutex inner(LockOrder::address_space);
        Mutex outer(LockOrder::block);
        const LockGuard guard(inner);
        const LockGuard late(outer);
      },
      "address_space", "block");
}

TEST_CASE("a second lock of the same kind ends the process", "[base]") {
  requires_abort(
      [] {
        SharedMutex one(LockOrder::advice);
        SharedMutex other(LockOrder::advice);
        const ReadGuard guard(one);
        const ReadGuard second(other);
      },
      "advice", "advice");
}

TEST_CASE("a wait under a lock that forbids it ends the process, and the message names both",
          "[base]") {
  requires_abort(
      [] {
        Mutex held(LockOrder::block);
        Mutex waited(LockOrder::view_requests);
        Condition condition;
        const LockGuard guard(held);
        const LockGuard wait(waited);
        condition.wait_for(waited, 1ms);
      },
      "view_requests", "block");
}

TEST_CASE("a lock that was taken by try_lock counts as held", "[base]") {
  requires_abort(
      [] {
        Mutex inner(LockOrder::pool);
        Mutex outer(LockOrder::engine);
        if (!inner.try_lock()) return;
        const AdoptGuard held(inner);
        outer.lock();
        outer.unlock();
      },
      "pool", "engine");
}

TEST_CASE("signals are delayed exactly while a lock of the fault path is held", "[base]") {
  count_signals();
  Mutex outer(LockOrder::engine);
  Mutex block(LockOrder::block);
  SharedMutex space(LockOrder::address_space);
  outer.lock();
  CHECK_FALSE(blocks(SIGUSR1));
  block.lock();
  ::pthread_kill(::pthread_self(), SIGUSR1);
  CHECK(signals == 0);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGSYS})
    CHECK_FALSE(blocks(signal));
  space.lock_shared();
  block.unlock();
  CHECK(signals == 0);
  space.unlock_shared();
  CHECK(signals == 1);
  CHECK_FALSE(blocks(SIGUSR1));
  outer.unlock();
}

TEST_CASE("a brief reader gets signals, and their handler reads while a writer waits", "[base]") {
  static SharedMutex space(LockOrder::address_space);
  static std::atomic<bool> has_read = false;
  handle(SIGUSR1, [](int) {
    const BriefReadGuard guard(space);
    has_read = true;
  });
  std::atomic<bool> has_written = false;
  std::thread writer;
  {
    const BriefReadGuard guard(space);
    writer = std::thread([&] {
      const WriteGuard guard(space);
      has_written = true;
    });
    std::this_thread::sleep_for(50ms);  // usually the writer waits by then
    ::pthread_kill(::pthread_self(), SIGUSR1);
    CHECK(has_read);
    CHECK_FALSE(has_written);
  }
  writer.join();
  CHECK(has_written);
}

TEST_CASE("a writer among brief readers that holds a lock of the fault path ends the process",
          "[base]") {
  requires_abort(
      [] {
        Mutex held(LockOrder::block);
        SharedMutex space(LockOrder::address_space);
        const LockGuard guard(held);
        const WriteGuard write(space);
      },
      "address_space", "block");
}

TEST_CASE("a signal that the program blocks stays blocked", "[base]") {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGUSR2);
  ::pthread_sigmask(SIG_BLOCK, &mask, nullptr);
  {
    Mutex block(LockOrder::block);
    const LockGuard guard(block);
  }
  CHECK(blocks(SIGUSR2));
  CHECK_FALSE(blocks(SIGUSR1));
  ::pthread_sigmask(SIG_UNBLOCK, &mask, nullptr);
}

TEST_CASE("a failed try_lock does not change the signal mask", "[base]") {
  Mutex block(LockOrder::block);
  std::atomic<bool> locked = false;
  std::thread trying([&] {
    while (!locked) std::this_thread::yield();
    CHECK_FALSE(block.try_lock());
    CHECK_FALSE(blocks(SIGUSR1));
  });
  {
    const LockGuard guard(block);
    locked = true;
    trying.join();
  }
}

TEST_CASE("a thread that waits for a condition gets its signals", "[base]") {
  count_signals();
  Mutex mutex(LockOrder::view_requests);
  Condition condition;
  std::atomic<bool> waits = false;
  bool go = false;
  std::thread waiting([&] {
    const LockGuard guard(mutex);
    waits = true;
    while (!go) condition.wait_for(mutex, 10s);
  });
  while (!waits) std::this_thread::yield();
  { const LockGuard guard(mutex); }  // the thread sleeps now, or is about to
  ::pthread_kill(waiting.native_handle(), SIGUSR1);
  for (int i = 0; i < 10'000 && signals == 0; ++i) std::this_thread::sleep_for(1ms);
  CHECK(signals == 1);
  {
    const LockGuard guard(mutex);
    go = true;
  }
  condition.notify_all();
  waiting.join();
}

TEST_CASE("a wait on a condition ends at its limit, and a notification wakes the waiter",
          "[base]") {
  Mutex mutex(LockOrder::view_requests);
  Condition condition;
  int turn = 0;
  const auto play = [&](int mine) {
    for (int i = 0; i < 1000; ++i) {
      const LockGuard guard(mutex);
      while (turn % 2 != mine) condition.wait_for(mutex, 20s);
      ++turn;
      condition.notify_all();
    }
  };
  std::thread other(play, 1);
  play(0);
  other.join();
  CHECK(turn == 2000);
  const LockGuard guard(mutex);
  CHECK_FALSE(condition.wait_for(mutex, 5ms, [] { return false; }));
}

TEST_CASE(
    "a handler that takes locks may interrupt a thread anywhere except while it holds its own",
    "[base]") {
  constexpr int limit_ms = 30'000;
  const Outcome outcome = in_fresh_process(
      [] {
        static Mutex block(LockOrder::block);
        static Mutex engine(LockOrder::engine);
        static std::atomic<int> runs = 0;
        handle(SIGALRM, [](int) {
          const LockGuard guard(block);
          ++runs;
        });
        const itimerval often{{0, 20}, {0, 20}};
        expect(::setitimer(ITIMER_REAL, &often, nullptr) == 0, "setitimer");
        while (runs < 5000) {
          const LockGuard outer(engine);
          const LockGuard inner(block);
        }
        ::_exit(0);
      },
      limit_ms);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace wherry::test::lock_test
