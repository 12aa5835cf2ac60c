// The part of a device process that a trap needs. DeviceProcess (devices/device_process.h)
// implements it. Any thread may call.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "os/files/fd.h"
#include "os/memory/mapping.h"
#include "trap/fault_board.h"

namespace wherry::impl {

class TrappedProcess {
 public:
  virtual ~TrappedProcess() = default;

  virtual pid_t pid() const = 0;
  virtual int pidfd() const = 0;  // readable once the process has ended

  // The process's new userfaultfd (without UFFDIO_API); empty if the kind of trap uses none. To be
  // called once.
  virtual Fd take_userfaultfd() = 0;
  // Where its threads post their faults, and the eventfd that they signal for each; the latter is
  // empty if the kind of trap posts none.
  virtual FaultBoard& fault_board() = 0;
  virtual const Fd& fault_notifier() const = 0;

  // Commands to the process; they wait for its answer. Return 0 or an errno (ESRCH: the process has
  // ended; ETIMEDOUT: no answer).
  // Makes the range PROT_NONE: accesses raise SIGSEGV.
  [[nodiscard]] virtual int forbid(std::uintptr_t address, std::size_t bytes) = 0;
  // Makes the process see the pool of processor `owner` in this part of its arena. With a
  // userfaultfd, returns only after the remap event has been read.
  [[nodiscard]] virtual int change_view(const FileView& view, std::size_t owner) = 0;
  // Removes the page table entries of these runs of arena pages, at most ViewChanger::runs_max.
  // Waits as ViewChanger::forget_entries() says.
  [[nodiscard]] virtual int forget_entries(std::span<const PageSpan> runs) = 0;
  // See ViewChanger::is_overdue().
  virtual bool is_overdue() = 0;

  // Kills the process without waiting.
  virtual void kill() = 0;
  // Ends a process that does not answer, waits for its end, and writes a log line.
  virtual void give_up() = 0;
};

}  // namespace wherry::impl
