// The interface between the wrappers of system calls (lib/io) and the library. The wrappers are in
// the interposers, which come with the library, and in libwherry_io. Neither libwherry_io nor the
// library is linked against the other: a program may have one of them, or both in either order, so
// the library looks for libwherry_io when it starts.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "pages/arena_layout.h"

namespace wherry::impl {

// How a system call uses memory; `look` only asks.
enum class SystemCallAccess {
  look,
  read,
  write,
};

struct SystemCallHooks {
  // Touches the bytes up to the first that this process may not access, and at most 16 MiB. Returns
  // their number; 0: the first byte is not managed memory that this process may access, and system
  // calls take the memory as it is. `look` only counts. Async-signal-safe.
  std::size_t (*prepare)(const void* start, std::size_t bytes, SystemCallAccess access);
  // Tells where managed memory may be. Null: there is none yet.
  std::atomic<const ArenaLayout*> layout;

  // Whether the address may be managed memory; if not, prepare() returns 0. Inline, because the
  // wrappers ask this in every call.
  bool may_begin_at(const void* address) const {
    const ArenaLayout* const found = layout.load(std::memory_order_acquire);
    return found != nullptr && found->may_contain(reinterpret_cast<std::uintptr_t>(address));
  }
};

// The function that libwherry_io exports. It takes a pointer to hooks, which live as long as the
// process, and whether calls' memory is to be prepared. libwherry_io uses the hooks from then on,
// in processes that are forked later, too.
inline constexpr const char* attach_name = "wherry_io_attach";

// Passes hooks to the interposers, and to libwherry_io if it is loaded. Only libwherry_io prepares
// memory, and only if Linux does not serve faults inside system calls.
void attach_to_system_calls(bool faults_are_served);

// Tells the wrappers where managed memory is in this process.
void announce_to_system_calls(const ArenaLayout& layout);

// libwherry.so and libwherry.a define this differently (interposers/attach_shared.cc,
// interposers/attach_static.cc). Without interposers it does nothing.
void pass_to_interposers(const SystemCallHooks& hooks);

}  // namespace wherry::impl
