#include "os/access_faults.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <optional>

#include "os/signal_chain.h"

namespace wherry::impl {
namespace {

std::atomic<std::uintptr_t> claimed_start = 0;
std::atomic<std::uintptr_t> claimed_end = 0;
std::atomic<AccessFaultHook> claimed_by = nullptr;

// Whether the faulting access was a write; nothing for an instruction fetch, which no data page serves.
#if defined(__x86_64__)
std::optional<bool> is_write(const ucontext_t& context) {
  constexpr greg_t write = 1 << 1;
  constexpr greg_t instruction_fetch = 1 << 4;
  const greg_t error = context.uc_mcontext.gregs[REG_ERR];
  if ((error & instruction_fetch) != 0) return {};
  return (error & write) != 0;
}
#elif defined(__aarch64__)
std::optional<bool> is_write(const ucontext_t& context) {
  constexpr std::uint64_t write = 1 << 6;
  constexpr std::uint64_t class_shift = 26;
  constexpr std::uint64_t instruction_abort = 0x20;
  const auto& records = context.uc_mcontext.__reserved;
  _aarch64_ctx head;
  for (std::size_t at = 0; at + sizeof(esr_context) <= sizeof records; at += head.size) {
    std::memcpy(&head, &records[at], sizeof head);
    if (head.magic == 0 || head.size == 0) break;
    if (head.magic != ESR_MAGIC) continue;
    esr_context record;
    std::memcpy(&record, &records[at], sizeof record);
    if ((record.esr >> class_shift & 0x3f) == instruction_abort) return {};
    return (record.esr & write) != 0;
  }
  return true;  // serves reads as well
}
#else
#error "how does a ucontext_t of this processor tell writes from reads?"
#endif

bool resolved(const siginfo_t& info, const ucontext_t& context) {
  if (info.si_code != SEGV_ACCERR && info.si_code != SEGV_MAPERR) return false;
  const AccessFaultHook hook = claimed_by.load(std::memory_order_acquire);
  const auto address = reinterpret_cast<std::uintptr_t>(info.si_addr);
  if (hook == nullptr || address < claimed_start.load(std::memory_order_relaxed) ||
      address >= claimed_end.load(std::memory_order_relaxed))
    return false;
  const auto write = is_write(context);
  return write && hook({address, *write});
}

void on_signal(int signal, siginfo_t* info, ucontext_t* context) {
  const int saved_errno = errno;
  // What the hook calls may be cancellation points; the access that it stands for is none.
  int cancellable = PTHREAD_CANCEL_ENABLE;
  ::pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancellable);
  const bool ours = signal == SIGSEGV && resolved(*info, *context);
  ::pthread_setcancelstate(cancellable, nullptr);
  errno = saved_errno;
  if (!ours) pass_on(signal, info, context);
}

}  // namespace

void claim_access_faults(std::uintptr_t start, std::uintptr_t end, AccessFaultHook hook) {
  claimed_by = nullptr;
  claimed_start = start;
  claimed_end = end;
  claimed_by = hook;
  take_signals(on_signal);
}

}  // namespace wherry::impl
