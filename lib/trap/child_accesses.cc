#include "trap/child_accesses.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <limits>
#include <system_error>

#include "base/log.h"
#include "os/signals/access_faults.h"

namespace wherry::impl {
namespace {

// A log line is formatted on the stack, and alternate stacks may be as small as two signal frames.
constexpr std::size_t line_stack_bytes = 4 * log_line_max;

// Written while the process has one thread.
std::array<AddressRange, 2> absent_ranges;
// The process in which the line was written: a child of the child gets a line of its own.
std::atomic<pid_t> explained_in = 0;

bool on_child_fault(const AccessFault& fault) {
  const bool is_absent = std::ranges::any_of(
      absent_ranges, [&](AddressRange range) { return range.contains(fault.address); });
  if (!is_absent || fault.alternate_stack_bytes < line_stack_bytes) return false;
  const pid_t process = ::getpid();
  if (explained_in.exchange(process) != process)
    log_error(
        "process {} {} {:#x}: managed memory is not in a child of fork(); copy what the child "
        "needs to ordinary memory before fork(), or leave the access to the parent",
        process, fault.write ? "wrote to" : "read", fault.address);
  return false;
}

bool blocks_access_signal() {
  sigset_t blocked;
  sigemptyset(&blocked);
  ::pthread_sigmask(SIG_BLOCK, nullptr, &blocked);
  return sigismember(&blocked, SIGSEGV) == 1;
}

}  // namespace

void explain_accesses_in_child(const std::array<AddressRange, 2>& absent) {
  if (blocks_access_signal()) return;
  absent_ranges = absent;
  try {
    claim_access_faults(0, std::numeric_limits<std::uintptr_t>::max(), AccessSignal::segv,
                        on_child_fault);
  } catch (const std::system_error&) {
    // SIGSEGV could not be taken, so no log line will explain the child's end.
  }
}

}  // namespace wherry::impl
