#include "os/files/fd.h"

#include <sched.h>

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "os/process/thread.h"

namespace wherry::impl {
namespace {

// As many as a process can have by default (fs.nr_open). Linux allocates only the used part of the
// 128 KiB of each set.
constexpr std::size_t descriptors_max = std::size_t{1} << 20;
constexpr std::size_t word_bits = 64;
using Descriptors = std::array<std::atomic<std::uint64_t>, descriptors_max / word_bits>;
constinit Descriptors owned{};
constinit Descriptors to_close{};  // to close after the current fork; in `owned` until then
constinit std::atomic<std::size_t> words_used = 0;
// A thread that closes first increments `closing` and then reads `forks`; a thread that forks does
// the reverse. So at least one of them sees the other.
constinit std::atomic<int> closing = 0;
constinit std::atomic<int> forks = 0;

std::uint64_t bit_of(std::size_t number) {
  return std::uint64_t{1} << number % word_bits;
}

template <typename Visit>
void take_all(Descriptors& from, const Visit& visit) {
  const std::size_t used = words_used.load();
  for (std::size_t word = 0; word < used; ++word)
    for (std::uint64_t bits = from[word].exchange(0); bits != 0; bits &= bits - 1)
      visit(static_cast<int>(word * word_bits) + std::countr_zero(bits));
}

}  // namespace

int own_descriptor(int fd) {
  if (fd >= 0 && fd <= STDERR_FILENO) {
    const int higher = ::fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    if (higher >= 0) ::close(std::exchange(fd, higher));
  }
  const auto number = static_cast<std::size_t>(fd);
  if (fd < 0 || number >= descriptors_max) return fd;
  const std::size_t word = number / word_bits;
  std::size_t used = words_used.load(std::memory_order_relaxed);
  while (used <= word && !words_used.compare_exchange_weak(used, word + 1)) {
  }
  owned[word].fetch_or(bit_of(number));
  return fd;
}

bool disown_descriptor(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (fd < 0) return false;
  if (number >= descriptors_max) return true;
  const std::uint64_t bit = bit_of(number);
  return (owned[number / word_bits].fetch_and(~bit) & bit) != 0;
}

void close_descriptor(int fd) {
  // A signal handler that interrupted this function and forked would wait for `closing` for ever.
  const SignalBlock no_signals;
  const auto number = static_cast<std::size_t>(fd);
  closing.fetch_add(1);
  const bool later = forks.load() != 0 && number < descriptors_max &&
                     (owned[number / word_bits].load() & bit_of(number)) != 0;
  if (later) to_close[number / word_bits].fetch_or(bit_of(number));
  // The number leaves the set first, because Linux may reuse a closed descriptor's number.
  if (!later && disown_descriptor(fd)) ::close(fd);
  closing.fetch_sub(1);
}

void begin_fork_of_descriptors() {
  forks.fetch_add(1);
  while (closing.load() != 0) ::sched_yield();
}

void end_fork_of_descriptors() {
  if (forks.fetch_sub(1) != 1) return;
  take_all(to_close, [](int fd) {
    if (disown_descriptor(fd)) ::close(fd);
  });
}

void close_own_descriptors() {
  forks = closing = 0;
  take_all(to_close, [](int) {});
  take_all(owned, [](int fd) { ::close(fd); });
}

}  // namespace wherry::impl
