#include "os/fd.h"

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace wherry::impl {
namespace {

// As many as a process can have unless the machine was set up otherwise (fs.nr_open). Of these 128 KiB only what is used exists.
constexpr std::size_t descriptors_max = std::size_t{1} << 20;
constexpr std::size_t word_bits = 64;
constinit std::array<std::atomic<std::uint64_t>, descriptors_max / word_bits> owned{};
constinit std::atomic<std::size_t> words_used = 0;

}  // namespace

void own_descriptor(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (fd < 0 || number >= descriptors_max) return;
  const std::size_t word = number / word_bits;
  owned[word].fetch_or(std::uint64_t{1} << number % word_bits, std::memory_order_relaxed);
  std::size_t used = words_used.load(std::memory_order_relaxed);
  while (used <= word && !words_used.compare_exchange_weak(used, word + 1)) {
  }
}

bool disown_descriptor(int fd) {
  const auto number = static_cast<std::size_t>(fd);
  if (fd < 0) return false;
  if (number >= descriptors_max) return true;
  const std::uint64_t bit = std::uint64_t{1} << number % word_bits;
  return (owned[number / word_bits].fetch_and(~bit, std::memory_order_relaxed) & bit) != 0;
}

void close_own_descriptors() {
  const std::size_t used = words_used.load();
  for (std::size_t word = 0; word < used; ++word)
    for (std::uint64_t bits = owned[word].exchange(0); bits != 0; bits &= bits - 1)
      ::close(static_cast<int>(word * word_bits) + std::countr_zero(bits));
}

}  // namespace wherry::impl
