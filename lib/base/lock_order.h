// The order in which threads take the library's locks, which base/lock_table.inc lists. A thread
// that holds a lock takes only locks that stand below it in that table, and at most one lock of
// each kind. Test builds check this at run time (base/lock_checks.h); clang checks which lock
// guards which field (base/lock.h).
//
// Only two operations wait while they hold the lock of a block (docs/decisions/moving-pages.md,
// "Waits under a block's lock").
//
// The locks from `changes` on belong to the fault path: the threads that resolve faults take them,
// or wait for threads that hold them. While a thread of the application holds one of these, its
// signals are blocked (base/signal_blocking.h): a signal handler that accessed managed memory would
// wait for its own thread. For the same reason, code under one of these locks must not access
// managed memory or call the program's allocator.
#pragma once

#include <cstdint>

namespace wherry::impl {

enum class LockOrder : std::uint8_t {
#define LOCK(name, right) name,
#include "base/lock_table.inc"
#undef LOCK
};

constexpr bool is_of_fault_path(LockOrder order) {
  return order >= LockOrder::changes;
}

// `adopted` blocks signals because every fork() of the program takes it, before and afterwards: a
// signal handler that forks would wait for its own thread.
constexpr bool blocks_signals(LockOrder order) {
  return is_of_fault_path(order) || order == LockOrder::adopted;
}

// Whether threads look something up under the lock without blocking signals (BriefReadGuard). A
// thread that writes under such a lock holds no other lock of the fault path.
constexpr bool has_brief_readers(LockOrder order) {
  return order == LockOrder::address_space || order == LockOrder::advice;
}

// Whether a thread that holds the lock may wait.
bool may_wait_under(LockOrder order);

// The lock's name in messages.
const char* name_of(LockOrder order);

}  // namespace wherry::impl
