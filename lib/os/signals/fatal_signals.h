// Handles signals that would end the process, on alternate stacks, so that stack overflows are
// handled too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wherry::impl {

struct FatalSignal {
  int signal = 0;
  std::uintptr_t address = 0;  // the accessed address, or that of the instruction
  std::uintptr_t instruction = 0;
  bool invalid_access = false;  // a memory fault (SIGSEGV, SIGBUS), not a signal that was sent
};

// Installs `handler` for the signals that faults and abort() raise. It runs on the faulting
// thread's alternate stack with all signals blocked, and may call async-signal-safe functions only.
// If it returns true, it has removed the cause of the fault and the instruction is retried; if
// false, the process ends by the signal, as without a handler.
void catch_fatal_signals(bool (*handler)(const FatalSignal&));

// The calling thread's alternate signal stack, for the lifetime of the object.
class AlternateStack {
 public:
  // Throws std::system_error.
  AlternateStack();
  ~AlternateStack();
  AlternateStack(const AlternateStack&) = delete;
  AlternateStack& operator=(const AlternateStack&) = delete;

 private:
  void* start_ = nullptr;
  std::size_t bytes_ = 0;
};

// Unblocks all signals in the calling thread.
void unblock_all_signals();

}  // namespace wherry::impl
