// In a device with WHERRY_CHECK: the program's ordinary memory, of which the device has a private
// snapshot, can be read and not written, so that a kernel that writes there ends with an error
// instead of changing what the host never sees.
//
// Guarded are malloc's heaps, private anonymous mappings, and the variables of the program's own
// modules. Not guarded is what the caller keeps, and what the device maps later. The dynamic loader
// and the C++ library may write where they must (their lists, reference counts of locales): such a
// page is opened when they do.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "os/memory/address_map.h"

namespace wherry::impl {

// Made by the host before the fork.
struct SnapshotGuardPlan {
  std::vector<AddressRange> variables;  // of the program's own modules
  std::vector<AddressRange> trusted;    // code that may write
};
// Neither the system's libraries nor the module with this library's code is one of the program's
// own.
SnapshotGuardPlan plan_snapshot_guard();

// Runs function(argument), which must not return, on a new thread, whose memory malloc takes from
// the window, as that of every thread after it. The calling thread and a few others sleep from then
// on. Returns an errno, or does not return.
[[nodiscard]] int continue_on_fresh_heap(AddressRange window, void (*function)(void*),
                                         void* argument);
// Takes write access away. `kept`: what is not guarded, the window among it; of variables, only
// `kept_variables` are not. The plan and what it holds must stay. Once, in the device; allocates
// nothing. Returns 0 or an errno.
[[nodiscard]] int guard_snapshot(const SnapshotGuardPlan& plan, AddressRange window,
                                 std::span<const AddressRange> kept,
                                 std::span<const AddressRange> kept_variables);
// For a new thread of the device. False: malloc gives it guarded memory, as where a program had
// more heaps than the C library would make; then nothing is guarded any more. True also where
// nothing was guarded.
[[nodiscard]] bool can_allocate_beside_guard();

enum class GuardVerdict {
  unguarded,  // the guard has nothing to do with this fault
  forbidden,
  permitted,  // the page can be written now
};
// Of a fault at the address by the instruction. Async-signal-safe.
GuardVerdict judge_fault(std::uintptr_t address, std::uintptr_t instruction);

}  // namespace wherry::impl
