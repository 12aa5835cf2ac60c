#include "measure/resident.h"

#include <algorithm>
#include <cstdint>

#include "measure/timing.h"

namespace wherry::bench {
namespace {

constexpr std::size_t reads_most = 1'000'000;

// A linear congruential generator makes the addresses. It adds a bit of each value that it reads,
// so that a read cannot begin before the previous one has ended.
double random_ns(const std::uint64_t* words, std::size_t count) {
  // At most one read for every eight words, so that small memory is measured in a short time.
  const std::size_t reads = std::min(reads_most, count / 8);
  std::uint64_t at = 1, bit = 0;
  const double elapsed = ns_of([&] {
    for (std::size_t i = 0; i < reads; ++i) {
      at = at * 6364136223846793005u + 1442695040888963407u + bit;
      bit = words[(at >> 20) % count] & 1;
    }
    asm volatile("" : : "r"(bit));
  });
  return elapsed / static_cast<double>(reads);
}

double triad_rate(double* a, std::size_t count) {
  const double* const b = a + count;
  const double* const c = b + count;
  const double elapsed = ns_of([&] {
    for (std::size_t i = 0; i < count; ++i) a[i] = b[i] + 3.0 * c[i];
    asm volatile("" : : "r"(a) : "memory");
  });
  return static_cast<double>(3 * count * sizeof(double)) / elapsed;
}

}  // namespace

ResidentSpeed resident_speed(std::byte* memory, std::size_t bytes) {
  const std::size_t words = bytes / sizeof(std::uint64_t);
  const double random = random_ns(reinterpret_cast<const std::uint64_t*>(memory), words);
  return {random, triad_rate(reinterpret_cast<double*>(memory), words / 3)};
}

}  // namespace wherry::bench
