#include "base/signal_blocking.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace wherry::impl {
namespace {

// Linux's mask layout: bit n - 1 is signal n.
constexpr std::uint64_t bit_of(int signal) {
  return std::uint64_t{1} << (signal - 1);
}

// Signals that are never blocked. The library uses SIGSTKFLT in place of SIGSEGV if the application
// blocks SIGSEGV (os/signals/signal_chain.h); the signal in place of SIGBUS is passed to
// never_block(). Signals 32 and 33 belong to the C library: setuid() waits until every thread has
// handled 33.
constexpr std::uint64_t left_alone = bit_of(SIGSEGV) | bit_of(SIGBUS) | bit_of(SIGFPE) |
                                     bit_of(SIGILL) | bit_of(SIGTRAP) | bit_of(SIGABRT) |
                                     bit_of(SIGSYS) | bit_of(SIGSTKFLT) | bit_of(32) | bit_of(33);
constinit std::atomic<std::uint64_t> blocked_by_library = ~left_alone;

// Does not call pthread_sigmask(), because the library interposes that function
// (interposers/signals.cc).
std::uint64_t change_mask(int how, std::uint64_t mask) {
  const int saved_errno = errno;
  std::uint64_t before = 0;
  ::syscall(SYS_rt_sigprocmask, how, &mask, &before, sizeof mask);
  errno = saved_errno;
  return before;
}

// Signal handlers read and write these fields, too. Each handler restores them before it returns,
// so plain variables are enough. The fences keep the compiler from moving accesses across the calls
// that change the mask.
struct BlockState {
  unsigned depth;
  bool always;           // the thread has all signals blocked for its whole life
  std::uint64_t before;  // the previous mask; valid while depth > 0
};
[[gnu::tls_model("initial-exec")]] constinit thread_local BlockState block_state{};

}  // namespace

void block_signals() {
  BlockState& mine = block_state;
  if (mine.depth == 0 && !mine.always) {
    // A handler that runs before this call finds depth 0 and leaves depth 0.
    const std::uint64_t before =
        change_mask(SIG_BLOCK, blocked_by_library.load(std::memory_order_relaxed));
    mine.before = before;
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  ++mine.depth;
  std::atomic_signal_fence(std::memory_order_seq_cst);
}

void unblock_signals() {
  BlockState& mine = block_state;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  if (--mine.depth != 0 || mine.always) return;
  const std::uint64_t before = mine.before;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  // Pending signals are delivered during this call, and their handlers may call block_signals().
  change_mask(SIG_SETMASK, before);
}

void forget_blocked_signals() {
  block_state = {};
}

void never_block(int signal) {
  blocked_by_library.fetch_and(~bit_of(signal), std::memory_order_relaxed);
}

void thread_gets_no_signals() {
  block_state.always = true;
}

}  // namespace wherry::impl
