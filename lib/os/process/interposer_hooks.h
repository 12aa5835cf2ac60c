// The library's functions that its interposers call. Interposers are functions that replace
// functions of the C library in the whole program (lib/interposers). Before they have the hooks
// they only call the C library's functions.
//
// Hooks may be called in signal handlers.
#pragma once

#include <signal.h>

#include <cstdint>

namespace wherry::impl {

struct InterposerHooks {
  // os/signals/signal_chain.h
  bool (*signals_are_taken)();
  bool (*is_remembered)(int signal);
  void (*exchange_action)(int signal, const struct sigaction* asked, struct sigaction* old);
  std::uint64_t (*mask_for_kernel)(std::uint64_t asked);
  std::uint64_t (*mask_for_application)(std::uint64_t real);
  std::uint64_t (*mask_to_unblock)(std::uint64_t asked);
  std::uint64_t (*mask_to_await)(std::uint64_t asked);
  void (*restore_signal)(siginfo_t& info);
  // os/memory/memory_locks.h
  int (*lock_all)(int flags, int (*next)(int));
};

// Passes the hooks to the interposers; later calls have no effect. Must be called before the
// library takes signals, and before it creates a file in memory that is mostly holes. Any thread.
// Throws std::system_error if there are no interposers.
void attach_interposers();

// libwherry.so and libwherry.a define these two differently (interposers/attach_shared.cc,
// interposers/attach_static.cc). `hooks` must live as long as the process.
void pass_to_interposers(const InterposerHooks& hooks);
// Returns an address in the module that contains the interposers, or null if there is none.
const void* address_in_interposers();

}  // namespace wherry::impl
