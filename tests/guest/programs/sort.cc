// Threads sort numbers, each in buffers of its own. They are parts of one vector of the main
// thread, which has set it to zero, so Linux has put all of it on the main thread's node.
//
// Usage: sort SECONDS
#include <array>
#include <thread>
#include <utility>
#include <vector>

#include "passes.h"

namespace {

constexpr std::size_t numbers = 500'000;  // of each thread

// Sorts by one digit of 8 bits after the other. The result is in `keys`.
void sort(std::uint32_t* keys, std::uint32_t* other) {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    std::array<std::size_t, 257> ends{};
    for (std::size_t i = 0; i < numbers; ++i) ++ends[(keys[i] >> shift & 0xff) + 1];
    for (std::size_t digit = 0; digit < 256; ++digit) ends[digit + 1] += ends[digit];
    for (std::size_t i = 0; i < numbers; ++i) other[ends[keys[i] >> shift & 0xff]++] = keys[i];
    std::swap(keys, other);
  }
}

std::uint64_t fill_and_sort(std::uint32_t* keys, unsigned seed) {
  std::uint32_t state = seed + 1;
  for (std::size_t i = 0; i < numbers; ++i) {
    state = state * 1664525 + 1013904223;
    keys[i] = state;
  }
  sort(keys, keys + numbers);
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < numbers; ++i) sum += keys[i] * (2 * i + 1);
  return sum;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  begin_passes(argv[1]);
  pin_to_cpu(0);
  std::vector<std::uint32_t> buffers(2 * numbers * THREADS);
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < THREADS; ++i) {
    threads.emplace_back([i, own = &buffers[2 * numbers * i]] {
      pin_to_cpu(i);
      std::uint64_t sum = 0;
      do {
        sum = fill_and_sort(own, i);
        note_use(own, 2 * numbers * sizeof *own);
      } while (goes_on(sum));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return report_passes();
}
