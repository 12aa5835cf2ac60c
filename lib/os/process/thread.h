// What the library's own threads need of the kernel: a name, a CPU, no signals.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace wherry::impl {

// Blocks every signal in the calling thread from block() to restore(). All but SIGSEGV and SIGBUS:
// Linux ends a process whose thread faults while it blocks the signal. Trivial, so that it may be a
// thread's own variable.
class SavedSignals {
 public:
  void block();
  void restore() const;

 private:
  unsigned long saved_[16];  // a sigset_t
};

// The same while it lives, so that threads started meanwhile inherit the block and the
// application's handlers never run on ours. Host functions run on our threads and touch managed
// memory.
class SignalBlock {
 public:
  SignalBlock() { signals_.block(); }
  ~SignalBlock() { signals_.restore(); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  SavedSignals signals_;
};

// Names the calling thread (at most 15 characters are kept).
void name_this_thread(const std::string& name);

// Has the calling thread run on these CPUs alone; false when none of them is ours to use.
bool pin_this_thread(std::span<const int> cpus);

// Has the calling thread's timed waits end when they are due; by default Linux adds up to 50 us.
void wait_precisely();

// From now on the calling thread gets a tenth of a CPU that others want, too, and does not
// interrupt them. Where the kernel refuses nothing changes.
void give_way();

// The calling thread's id, as the kernel counts.
std::uint32_t this_thread_id();
// Whether this process has a thread with this id.
bool thread_exists(std::uint32_t id);
// Lets another thread that wants this CPU have it.
void yield_cpu();

// Unmaps the stacks of ended threads that the C library keeps for new ones; in a forked process
// also those of the threads that were not copied. False when no thread can be started.
bool drop_cached_stacks();

}  // namespace wherry::impl
