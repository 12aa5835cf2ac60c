// Linux services for the library's own threads: a name, a CPU, blocked signals.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace wherry::impl {

// Blocks every signal except SIGSEGV and SIGBUS in the calling thread, from block() to restore():
// Linux kills a process whose thread faults while it blocks the signal. A trivial type, so that it
// may be a thread-local variable.
class SavedSignals {
 public:
  void block();
  void restore() const;

 private:
  unsigned long saved_[16];  // a sigset_t
};

// Keeps the calling thread from being cancelled, until restore(). The library calls cancellation
// points within functions that are none, such as fork().
class SavedCancellation {
 public:
  void disable();
  void restore() const;

 private:
  int saved_;
};

// Blocks the signals that SavedSignals blocks, for the lifetime of the object. Threads that are
// started meanwhile inherit the mask, so the application's signal handlers never run on the
// library's threads. SIGSEGV and SIGBUS stay unblocked, because host functions run on these threads
// and access managed memory.
class SignalBlock {
 public:
  SignalBlock() { signals_.block(); }
  ~SignalBlock() { signals_.restore(); }
  SignalBlock(const SignalBlock&) = delete;
  SignalBlock& operator=(const SignalBlock&) = delete;

 private:
  SavedSignals signals_;
};

// Names the calling thread (Linux keeps at most 15 characters).
void name_this_thread(const std::string& name);

// Restricts the calling thread to these CPUs. Returns false if the process may use none of them.
bool pin_this_thread(std::span<const int> cpus);

// Makes the calling thread's timed waits end on time; by default Linux adds up to 50 us.
void wait_precisely();

// Sets the calling thread's nice value to 10. Beside a thread of nice value 0 on the same CPU it
// gets about a tenth of the CPU's time. No effect if Linux refuses.
void give_way();

// The calling thread's Linux id.
std::uint32_t this_thread_id();
// Whether this process has a thread with this id.
bool thread_exists(std::uint32_t id);
// How much CPU time the calling thread has used, in nanoseconds.
std::uint64_t thread_cpu_ns();
// How much CPU time all threads of this process have used, in nanoseconds.
std::uint64_t process_cpu_ns();
// Lets another thread that waits for this CPU run.
void yield_cpu();

// Unmaps the stacks of ended threads that the C library caches for new threads; in a forked process
// also the stacks of the threads that were not copied. Returns false if no thread can be started.
bool drop_cached_stacks();

// Whether in a forked process the stacks of the threads that were not copied may stay in the C
// library's cache. glibc 2.43 keeps them: it does not count them as unused, gives them to no
// thread, and reads or relinks its records on them whenever a thread starts or ends.
bool keeps_forked_stacks();

}  // namespace wherry::impl
