// Threads of a block as fibers: all of them run, barriers and exchanges let each other see what was
// done before, and threads that end do not hold the others up.
#include "kernels/block_runner.h"

#include <functional>
#include <thread>
#include <vector>

#include "support/catch.h"

namespace wherry::test::block_runner_test {

using namespace wherry::impl;

namespace {

// Runs body(rank) for each thread of a block of this shape.
void run_block(unsigned x, unsigned y, unsigned z, const std::function<void(unsigned)>& body) {
  const wherryKernelBlock block{{0, 0, 0}, {x, y, z}, {1, 1, 1}, 0, nullptr, "test"};
  const auto call = [](void* closure) {
    (*static_cast<const std::function<void(unsigned)>*>(closure))(wherryThisThread->rank);
  };
  BlockRunner::of_this_thread().run(block, call, const_cast<std::function<void(unsigned)>*>(&body));
}

BlockRunner& runner() {
  return BlockRunner::of_this_thread();
}

}  // namespace

TEST_CASE("each thread runs once, with its own index") {
  std::vector<int> seen(24);
  run_block(4, 3, 2, [&](unsigned rank) {
    const unsigned(&index)[3] = wherryThisThread->threadIdx;
    CHECK((index[2] * 3 + index[1]) * 4 + index[0] == rank);
    ++seen[rank];
  });
  CHECK(seen == std::vector<int>(24, 1));
  CHECK(wherryThisThread == nullptr);
}

TEST_CASE("behind a barrier of the block is everything that was before it") {
  constexpr unsigned threads = 1000;
  std::vector<unsigned> values(threads);
  unsigned wrong = 0;
  run_block(threads, 1, 1, [&](unsigned rank) {
    for (unsigned round = 0; round < 5; ++round) {
      values[rank] = round;
      runner().block_barrier(0, nullptr);
      wrong += values[(rank + 1) % threads] != round;
      runner().block_barrier(0, nullptr);
    }
  });
  CHECK(wrong == 0);
}

TEST_CASE("a barrier counts predicates") {
  run_block(100, 1, 1, [&](unsigned rank) {
    int all = -1;
    CHECK(runner().block_barrier(rank < 30 ? 1 : 0, &all) == 30);
    CHECK(all == 0);
    CHECK(runner().block_barrier(1, &all) == 100);
    CHECK(all == 1);
  });
}

TEST_CASE("threads that end do not hold up a barrier") {
  unsigned passed = 0;
  run_block(64, 1, 1, [&](unsigned rank) {
    if (rank % 2 == 1) return;
    CHECK(runner().block_barrier(1, nullptr) == 32);
    ++passed;
  });
  CHECK(passed == 32);
}

TEST_CASE("lanes exchange values within their warp and mask") {
  run_block(70, 1, 1, [&](unsigned rank) {
    const unsigned lane = rank % warp_lanes;
    const unsigned mask = lane < 16 ? 0xffff : 0xffff0000;
    const unsigned long long* const values = runner().warp_exchange(mask, rank);
    const unsigned other = lane ^ 1;
    CHECK(values[other] == (rank ^ 1));
    runner().warp_barrier(mask);
  });
}

TEST_CASE("a warp's barrier does not wait for lanes that have ended") {
  unsigned passed = 0;
  run_block(32, 1, 1, [&](unsigned rank) {
    if (rank >= 8) {
      runner().warp_barrier(~0u);
      ++passed;
    }
  });
  CHECK(passed == 24);
}

TEST_CASE("active lanes are those that ask at one place while the others wait or have ended") {
  static const char first = 0;
  static const char second = 0;
  run_block(64, 1, 1, [&](unsigned rank) {
    const unsigned lane = rank % warp_lanes;
    if (lane < 4) return;
    if (lane < 12) {
      CHECK(runner().active_lanes(&first) == 0xff0);
    } else if (lane < 20) {
      CHECK(runner().active_lanes(&second) == 0xff000);
    }
    runner().block_barrier(0, nullptr);
    CHECK(runner().active_lanes(&first) == 0xfffffff0);
  });
}

TEST_CASE("blocks of different sizes run on several workers at once") {
  std::vector<std::thread> workers;
  std::vector<unsigned> sums(4);
  for (unsigned worker = 0; worker < sums.size(); ++worker)
    workers.emplace_back([&sums, worker] {
      for (const unsigned threads : {1u, 33u, 7u, 256u, 64u})
        run_block(threads, 1, 1,
                  [&](unsigned) { sums[worker] += runner().block_barrier(1, nullptr); });
    });
  for (std::thread& worker : workers) worker.join();
  constexpr unsigned expected = 1 + 33 * 33 + 7 * 7 + 256 * 256 + 64 * 64;
  CHECK(sums == std::vector<unsigned>(4, expected));
}

}  // namespace wherry::test::block_runner_test
