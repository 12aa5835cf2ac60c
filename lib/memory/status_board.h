// Owns the memory in which this process shows its counters (memory/status_memory.h): a memfd that
// stays open, so that `wherry top` can open it for reading through /proc/PID/fd. Linux decides who
// may do that: the same user, or a process that may trace this one. Linux refuses every write but
// those of this process (F_SEAL_FUTURE_WRITE).
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/lock.h"
#include "memory/status_memory.h"
#include "os/files/fd.h"
#include "os/memory/published_memory.h"

namespace wherry::impl {

// What does not change while the program runs. Texts that are too long are cut.
struct StatusFacts {
  std::string version;
  std::string trap;
  std::string policy;
  std::string policy_in_force;
  std::uint64_t arena_base = 0;
  std::uint64_t blocks = 0;
  std::uint64_t variables_from = 0;
  std::vector<ShownProcessor> processors;  // the host first
};

class StatusBoard {
 public:
  // Throws std::system_error.
  explicit StatusBoard(const StatusFacts& facts);

  // The place of p's counters: whoever counts something writes it there. Any thread.
  ProcessorStatus& processor(Processor p) const {
    return memory().processors[static_cast<std::size_t>(p.index)];
  }
  BlockActivity* blocks() const { return reinterpret_cast<BlockActivity*>(&memory() + 1); }

  // Shows this memory under the name, which is cut at shown_name_bytes - 1. Replaces the name of
  // memory that begins at the same address. `offset`: from the arena's base, or not_in_arena. Any
  // thread. Throws std::bad_alloc, and then shows no name.
  void name(std::uint64_t address, std::uint64_t bytes, std::uint64_t offset, std::string_view text)
      EXCLUDES(lock_);
  // Removes the names of memory that is freed. Any thread.
  void forget_names(std::uint64_t address, std::uint64_t bytes) EXCLUDES(lock_);

 private:
  StatusMemory& memory() const { return *static_cast<StatusMemory*>(published_.data()); }

  Fd file_;
  const PublishedMemory published_;

  Mutex lock_{LockOrder::shown_names};
  std::map<std::uint64_t, std::uint64_t> slots_ GUARDED_BY(lock_);  // by address
  std::vector<std::uint64_t> free_slots_ GUARDED_BY(lock_);
  std::atomic<bool> has_names_{false};  // changes under lock_
};

}  // namespace wherry::impl
