// Signal masks in Linux's format, and calls that bypass all interposers (lib/interposers). Callable
// in signal handlers.
#pragma once

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>

// The C library's sigaction(), by a name that only the C library defines.
extern "C" int __sigaction(int, const struct sigaction*, struct sigaction*) noexcept;

namespace wherry::impl {

// A mask of 64 signals, which is how much of a sigset_t Linux uses: a ucontext_t from Linux has no
// space for more.
inline std::uint64_t load_mask(const sigset_t& set) {
  std::uint64_t mask;
  std::memcpy(&mask, &set, sizeof mask);
  return mask;
}
inline void store_mask(sigset_t& set, std::uint64_t mask) {
  std::memcpy(&set, &mask, sizeof mask);
}

inline int kernel_sigaction(int signal, const struct sigaction* asked, struct sigaction* old) {
  return ::__sigaction(signal, asked, old);
}
inline int kernel_sigprocmask(int how, const sigset_t* asked, sigset_t* old) {
  return static_cast<int>(::syscall(SYS_rt_sigprocmask, how, asked, old, sizeof(std::uint64_t)));
}

}  // namespace wherry::impl
