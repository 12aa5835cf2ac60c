// The barrier of the blocks of a cooperative launch, with threads in place of workers.
#include "kernels/grid_barrier.h"

#include <atomic>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::grid_barrier_test {

using namespace wherry::impl;

TEST_CASE(
    "behind the barrier is what all blocks did before it, and ended blocks are not waited for") {
  constexpr unsigned blocks = 4;
  constexpr unsigned rounds = 300;
  GridBarrier barrier(blocks);
  // Plain variables: the barrier alone orders the accesses.
  std::vector<unsigned> written(blocks, 0);
  std::atomic<unsigned> wrong = 0;
  std::vector<std::thread> workers;
  for (unsigned block = 0; block < blocks; ++block)
    workers.emplace_back([&, block] {
      // Each block ends at another time; the last one runs all rounds.
      const unsigned last = rounds * (block + 1) / blocks;
      for (unsigned round = 1; round <= last; ++round) {
        written[block] = round;
        barrier.wait();
        for (unsigned other = block; other < blocks; ++other) wrong += written[other] != round;
        barrier.wait();
      }
      barrier.leave();
    });
  for (std::thread& worker : workers) worker.join();
  CHECK(wrong == 0);
}

}  // namespace wherry::test::grid_barrier_test
