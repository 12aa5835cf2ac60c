// In a device process with WHERRY_CHECK: makes the device's private snapshot of the program's
// ordinary memory read-only, so that a kernel that writes there ends with an error instead of
// changing a copy that the host never sees.
//
// The guard covers malloc's heaps, private anonymous mappings, and the variables of the program's
// own modules, except for ranges that the caller keeps and the C library's states of getrandom().
// It does not cover what the device maps later. The dynamic loader and the C++ library may write to
// guarded memory (their lists, reference counts of locales): a page becomes writable when they
// write to it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Computed by the host before the fork.
struct SnapshotGuardPlan {
  std::vector<AddressRange> variables;  // of the program's own modules
  std::vector<AddressRange> trusted;    // of code that may write to guarded memory
};
// These do not count as the program's modules: what is in the system's folders, the libraries of
// the C library and the compiler wherever they are, and the modules that contain this library and
// its interposers.
SnapshotGuardPlan plan_snapshot_guard();

// Runs function(argument), which must not return, on a new thread; malloc allocates that thread's
// memory, and that of later threads, from the window. The calling thread and a few others sleep
// from then on. Returns an errno on failure, and does not return on success.
[[nodiscard]] int continue_on_fresh_heap(AddressRange window, void (*function)(void*),
                                         void* argument);
// Makes memory read-only, except for `kept`, which includes the window. Variables are exempt only
// if they are in `kept_variables`. The plan and its ranges must outlive the guard. Call once, in
// the device process. Allocates nothing. Returns 0 or an errno.
[[nodiscard]] int guard_snapshot(const SnapshotGuardPlan& plan, AddressRange window,
                                 std::span<const AddressRange> kept,
                                 std::span<const AddressRange> kept_variables);
// Call in each new thread of the device. Returns false if malloc gives the thread guarded memory,
// as in a program with more heaps than the C library creates by default; the guard is then lifted
// everywhere. Returns true if nothing is guarded.
[[nodiscard]] bool can_allocate_beside_guard();

enum class GuardVerdict {
  unguarded,  // the guard is not the cause of this fault
  forbidden,
  permitted,  // the page is writable now
};
// Judges a fault at `address` by the instruction at `instruction`. Async-signal-safe.
GuardVerdict judge_fault(std::uintptr_t address, std::uintptr_t instruction);

}  // namespace wherry::impl
