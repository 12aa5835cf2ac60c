#include "os/signals/access_faults.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <limits>
#include <optional>

#include "base/page.h"
#include "os/arch/cpu.h"
#include "os/memory/mapping.h"
#include "os/process/futex.h"
#include "os/signals/signal_chain.h"

namespace wherry::impl {
namespace {

std::atomic<std::uintptr_t> claimed_start = 0;
std::atomic<std::uintptr_t> claimed_end = 0;
std::atomic<AccessSignal> claimed_signal = AccessSignal::segv;
std::atomic<AccessFaultHook> claimed_by = nullptr;

// Incremented when a freeze of writers begins and when it ends, so it is odd during a freeze.
std::atomic<std::uint32_t> freezes = 0;
std::atomic<std::uintptr_t> frozen_start = 0;
std::atomic<std::uintptr_t> frozen_end = 0;

// Returns whether the write is to be retried, possibly after waiting for the end of the freeze.
bool was_frozen(std::uintptr_t address) {
  constexpr int limit_ms = 1000;
  // The loop ends: each further round means that a freeze began or ended meanwhile.
  for (;;) {
    const std::uint32_t count = freezes.load(std::memory_order_acquire);
    if (count == 0) return false;
    if (count % 2 == 1 && address >= frozen_start.load(std::memory_order_relaxed) &&
        address < frozen_end.load(std::memory_order_relaxed)) {
      futex_wait(freezes, count, limit_ms);
      return true;
    }
    // The freeze that caused the fault may already be over.
    if (is_writable(round_down(address, page_size))) return true;
    // Another freeze may have begun since the count was read.
    std::atomic_thread_fence(
        std::memory_order_acquire);  // pairs with the fence in freeze_writers()
    if (freezes.load(std::memory_order_relaxed) == count) return false;
  }
}

std::size_t alternate_stack_bytes(const ucontext_t& context) {
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const auto start = reinterpret_cast<std::uintptr_t>(context.uc_stack.ss_sp);
  return here - start < context.uc_stack.ss_size ? here - start
                                                 : std::numeric_limits<std::size_t>::max();
}

// How Linux refused the current access; nullopt if the signal has another cause.
std::optional<AccessSignal> refusal(int signal, const siginfo_t& info) {
  if (signal == SIGSEGV && (info.si_code == SEGV_ACCERR || info.si_code == SEGV_MAPERR))
    return AccessSignal::segv;
  if (signal == SIGBUS && info.si_code == BUS_ADRERR) return AccessSignal::bus;
  return {};
}

bool resolved(int signal, const siginfo_t& info, const ucontext_t& context) {
  const auto refused_by = refusal(signal, info);
  if (!refused_by) return false;
  const AccessFaultHook hook = claimed_by.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  const auto write = is_write(context);
  if (!write) return false;
  const bool claimed = hook != nullptr &&
                       *refused_by == claimed_signal.load(std::memory_order_relaxed) &&
                       address >= claimed_start.load(std::memory_order_relaxed) &&
                       address < claimed_end.load(std::memory_order_relaxed);
  if (claimed && hook({address, *write, alternate_stack_bytes(context)})) return true;
  return *refused_by == AccessSignal::segv && *write && was_frozen(address);
}

void on_access_signal(int signal, siginfo_t* info, ucontext_t* context) {
  const int saved_errno = errno;
  // The hook may call cancellation points; the memory access that faulted is none.
  int cancellable = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
  const bool ours = resolved(signal, *info, *context);
  ::pthread_setcancelstate(cancellable, nullptr);
  errno = saved_errno;
  if (!ours) pass_on(signal, info, context);
}

}  // namespace

void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessSignal signal,
                         AccessFaultHook hook) {
  claimed_by = nullptr;
  claimed_signal = signal;
  claimed_start = start;
  claimed_end = end;
  claimed_by = hook;
  take_signals(on_access_signal);
}

void freeze_writers(std::uintptr_t start, std::uintptr_t end) {
  if (!signals_are_taken()) take_signals(on_access_signal);
  // A thread that sees the new range also sees that the previous freeze is over.
  std::atomic_thread_fence(std::memory_order_release);
  frozen_start.store(start, std::memory_order_relaxed);
  frozen_end.store(end, std::memory_order_relaxed);
  freezes.fetch_add(1, std::memory_order_release);  // pairs with the acquire in was_frozen()
}

void thaw_writers() {
  freezes.fetch_add(1, std::memory_order_release);
  futex_wake(freezes, std::numeric_limits<int>::max());
}

}  // namespace wherry::impl
