// Catching what would end the process, on stacks of their own so that a stack overflow is caught
// too.
#pragma once

#include <cstddef>
#include <cstdint>

namespace wherry::impl {

struct FatalSignal {
  int signal = 0;
  std::uintptr_t address = 0;  // that was touched, or of the instruction
  std::uintptr_t instruction = 0;
  bool invalid_access = false;  // a fault on memory (SIGSEGV, SIGBUS), not a signal that was sent
};

// Installs `handler` for the signals that faults and abort() raise. It runs on the faulting
// thread's alternate stack with all signals blocked, and may call async-signal-safe functions only.
// True: the cause of the fault is removed, and the instruction is tried again; else the process
// ends.
void catch_fatal_signals(bool (*handler)(const FatalSignal&));

// The calling thread's alternate signal stack, while this object lives.
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

// Opens all signals for the calling thread.
void unblock_all_signals();

}  // namespace wherry::impl
