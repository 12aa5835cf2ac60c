// Which threads of the program count as a coherent device: their accesses to managed memory are the
// device's, all other threads' are the host's. A table from Linux's thread ids to processors, for
// the whole process.
//
// A thread attaches itself, either to one device or "by CPU": then it counts as the coherent device
// on whose node it runs, which is looked up at each fault. It is detached when it ends.
//
// Lookups take no lock, make no system call, allocate nothing and are async-signal-safe. The CPU of
// another thread is read from its memory (os/process/current_cpu.h), which is gone when the thread
// has ended. So each entry counts its readers, and detaching waits until there are none; a reader
// never waits.
//
// In a forked child the table is empty: Linux does not copy the threads, and thread ids differ.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/lock.h"
#include "base/processor.h"
#include "os/memory/sparse_memory.h"
#include "os/process/fork_mark.h"

namespace wherry::impl {

class AttachedThreads {
 public:
  static constexpr std::size_t usual_threads_max = 8192;

  // `by_cpu`: for each CPU number, which processor a thread on that CPU counts as in by-CPU mode;
  // CPUs beyond the list are the host's. `threads_max`: how many threads may be attached at the
  // same time, at least 1. Throws std::system_error.
  explicit AttachedThreads(std::vector<Processor> by_cpu,
                           std::size_t threads_max = usual_threads_max);
  // Requires: no thread is attached.
  ~AttachedThreads() = default;
  AttachedThreads(const AttachedThreads&) = delete;
  AttachedThreads& operator=(const AttachedThreads&) = delete;

  // ---- Any thread; async-signal-safe

  // What the thread with this id counts as: the host unless it is attached.
  Processor processor_of(pid_t thread) const noexcept;
  // Whether some thread is attached. If not, every thread counts as the host.
  bool any() const noexcept {
    return attached_.load(std::memory_order_relaxed) != 0 && mark_.is_here();
  }
  // Call it when the program begins something new, for example a kernel. Attaching or detaching a
  // thread marks a phase, too.
  void mark_phase() noexcept { phases_.fetch_add(1, std::memory_order_relaxed); }
  // How many phases have been marked.
  std::uint64_t phases() const noexcept { return phases_.load(std::memory_order_relaxed); }

  // ---- For the calling thread; any thread, but no signal handler

  // Attaches the thread, or replaces its attachment. Each returns 0, or an errno and changes
  // nothing:
  //   EAGAIN  as many threads are attached as may be
  //   ESRCH   the thread is ending, and its attachments have ended already
  //   EPERM   this is a forked child
  // Requires: `device` is not the host; the thread is not attached to another table.
  [[nodiscard]] int attach(Processor device);
  // Also ENODEV: no CPU is a device's; ENOTSUP: the C library does not let Linux tell the CPU.
  [[nodiscard]] int attach_by_cpu();
  // Returns 0, or EINVAL if the thread is not attached.
  [[nodiscard]] int detach();

  struct Attachment {
    Processor counts_as;  // now
    bool by_cpu = false;
  };
  // Returns the host, and not by CPU, if the thread is not attached. Async-signal-safe.
  Attachment mine() const noexcept;

 private:
  // The attachment of one thread. The table is open-addressed: an entry is in the slot to which its
  // thread id hashes, or in the first usable one after it. A new slot is all zero.
  struct Slot {
    // The thread's id << 32 | its role. 0 and `removed` mean free; a search ends at 0.
    std::atomic<std::uint64_t> word;
    // By CPU: where Linux keeps the number of the thread's CPU. Read only by counted readers.
    std::atomic<const std::uint32_t*> cpu;
    std::atomic<std::uint32_t> readers;
  };
  // What a found entry held at one moment.
  struct Found {
    Slot* slot = nullptr;  // null: the thread has no entry
    std::uint64_t word = 0;
  };
  // The calling thread's attachment.
  struct Mine;
  // Called when the thread ends.
  static void end(void*);

  std::size_t first_slot(pid_t thread) const noexcept;
  std::size_t after(std::size_t slot) const noexcept { return (slot + 1) & (slot_count_ - 1); }
  std::size_t before(std::size_t slot) const noexcept { return (slot - 1) & (slot_count_ - 1); }
  Found find(pid_t thread) const noexcept;
  Processor on_cpu(const Slot& slot) const noexcept;
  Processor processor_at(const Found& found) const noexcept;
  int enter(std::uint32_t role, const std::uint32_t* cpu) EXCLUDES(lock_);
  void leave(pid_t thread) EXCLUDES(lock_);
  Slot& usable_slot(pid_t thread) REQUIRES(lock_);
  void remove(Slot& slot) REQUIRES(lock_);

  static thread_local Mine mine_;

  const std::vector<Processor> by_cpu_;
  const bool has_cpus_;  // some CPU is a device's
  const std::size_t threads_max_;
  const std::size_t slot_count_;  // a power of two; half of them stay free
  const ForkMark mark_;
  SparseMemory memory_;
  Slot* const slots_;
  std::atomic<std::uint32_t> attached_{0};  // threads; changes under lock_
  std::atomic<std::uint64_t> phases_{0};

  Mutex lock_{LockOrder::attached_threads};  // while entries are added and removed
};

}  // namespace wherry::impl
