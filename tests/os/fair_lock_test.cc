// No thread waits for a FairLock while another one gets it again and again.
#include "os/process/fair_lock.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::fair_lock_test {

using wherry::impl::FairLock;
using namespace std::chrono_literals;

namespace {

// Holds the lock for a while, again and again, and counts how often.
class GreedyThread {
 public:
  explicit GreedyThread(FairLock& lock) : thread_([this, &lock] { work(lock); }) {}
  ~GreedyThread() {
    ends_ = true;
    thread_.join();
  }
  GreedyThread(const GreedyThread&) = delete;
  GreedyThread& operator=(const GreedyThread&) = delete;

  std::uint64_t turns() const { return turns_; }

 private:
  void work(FairLock& lock) {
    while (!ends_) {
      lock.lock();
      ++turns_;
      const auto end = std::chrono::steady_clock::now() + 100us;
      while (std::chrono::steady_clock::now() < end) continue;
      lock.unlock();
    }
  }

  std::atomic<bool> ends_ = false;
  std::atomic<std::uint64_t> turns_ = 0;
  std::thread thread_;
};

}  // namespace

TEST_CASE("a lock excludes other threads, and a try does not wait", "[os]") {
  FairLock lock;
  lock.lock();
  CHECK(!lock.try_lock());
  lock.unlock();
  REQUIRE(lock.try_lock());
  lock.unlock();

  std::uint64_t sum = 0;
  const std::uint64_t rounds = std::max<std::uint64_t>(scaled(100'000), 1'000);
  std::vector<std::thread> threads;
  for (int i = 0; i < 6; ++i)
    threads.emplace_back([&] {
      for (std::uint64_t round = 0; round < rounds; ++round) {
        if (round % 8 != 0 || !lock.try_lock()) lock.lock();
        ++sum;
        lock.unlock();
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(sum == 6 * rounds);
  CHECK(lock.try_lock());
}

TEST_CASE("a thread that sleeps for the lock gets it while another always locks it again", "[os]") {
  // About twenty turns fit in the time after which a waiter is overdue.
  constexpr std::uint64_t turns_max = 300;
  FairLock lock;
  const GreedyThread first(lock);
  const GreedyThread second(lock);
  while (first.turns() == 0 || second.turns() == 0) std::this_thread::sleep_for(1ms);
  std::uint64_t most = 0;
  for (int i = 0; i < 20; ++i) {
    std::this_thread::sleep_for(1ms);
    const std::uint64_t before = first.turns() + second.turns();
    lock.lock();
    most = std::max(most, first.turns() + second.turns() - before);
    lock.unlock();
  }
  CHECK(most < turns_max);
}

}  // namespace wherry::test::fair_lock_test
