#include "stress/shared_pages.h"

#include <random>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test {

class SharedPagesGame::Player {
 public:
  Player(const Table& table, unsigned number)
      : table_(table), number_(number), random_(table.seed * 1000 + number) {}

  void play() {
    while (report_.accesses < table_.accesses) {
      const auto page = static_cast<unsigned>(random_() % pages);
      const auto burst = static_cast<unsigned>(1 + random_() % 8);
      switch (random_() % 4) {
        case 0:
          count_together(page, burst);
          break;
        case 1:
          count_alone(page, burst);
          break;
        case 2:
          owns(page) ? write_locked(page, burst) : read_locked(page, burst);
          break;
        case 3:
          owns(page) ? send(page, burst) : receive(page, burst);
          break;
      }
    }
    table_.reports[number_] = report_;
  }

 private:
  bool owns(unsigned page) const { return page % players == number_; }

  void count_together(unsigned number, unsigned burst) {
    SharedPage& page = table_.page(number);
    for (unsigned i = 0; i < burst; ++i) page.counter.fetch_add(1);
    report_.increments[number] += burst;
    report_.accesses += burst;
  }

  void count_alone(unsigned number, unsigned burst) {
    volatile std::uint64_t& own = table_.page(number).owned[number_];
    for (unsigned i = 0; i < burst; ++i) {
      if (own != report_.owned[number]) ++report_.lost;
      own = ++report_.owned[number];
    }
    report_.accesses += 2 * burst;
  }

  void write_locked(unsigned number, unsigned burst) {
    SharedPage& page = table_.page(number);
    std::uint64_t sequence = page.sequence.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < burst; ++i, sequence += 2) {
      page.sequence.store(sequence + 1, std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_release);
      for (auto& word : page.locked) word.store(sequence + 2, std::memory_order_relaxed);
      page.sequence.store(sequence + 2, std::memory_order_release);
    }
    report_.accesses += 6 * burst;
  }

  void read_locked(unsigned number, unsigned burst) {
    SharedPage& page = table_.page(number);
    for (unsigned i = 0; i < burst; ++i) {
      const std::uint64_t before = page.sequence.load(std::memory_order_acquire);
      std::array<std::uint64_t, 4> seen;
      for (unsigned n = 0; n < seen.size(); ++n)
        seen[n] = page.locked[n].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (before % 2 != 0 || page.sequence.load(std::memory_order_relaxed) != before) continue;
      for (const std::uint64_t word : seen) report_.torn += word != before ? 1 : 0;
    }
    report_.accesses += 6 * burst;
  }

  // The message is on the next page, so that the two pages move independently.
  void send(unsigned number, unsigned burst) {
    std::atomic<std::uint64_t>& flag = table_.page(number).flag;
    std::atomic<std::uint64_t>& message = table_.page(number + pages_per_group).message;
    std::uint64_t last = flag.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < burst; ++i) {
      message.store(++last, std::memory_order_relaxed);
      flag.store(last, std::memory_order_release);
    }
    report_.accesses += 2 * burst;
  }

  void receive(unsigned number, unsigned burst) {
    std::atomic<std::uint64_t>& flag = table_.page(number).flag;
    std::atomic<std::uint64_t>& message = table_.page(number + pages_per_group).message;
    std::uint64_t last = 0;
    for (unsigned i = 0; i < burst; ++i) {
      const std::uint64_t announced = flag.load(std::memory_order_acquire);
      const std::uint64_t found = message.load(std::memory_order_relaxed);
      if (found < announced || announced < last) ++report_.overtaken;
      last = announced;
    }
    report_.accesses += 2 * burst;
  }

  const Table& table_;
  const unsigned number_;
  std::mt19937_64 random_;
  Report report_{};  // on the player's own stack until the end
};

void SharedPagesGame::Table::play(unsigned player) const {
  Player{*this, player}.play();
}

SharedPagesGame::SharedPagesGame(const Session& session, std::uint64_t accesses)
    : session_(session),
      memory_(pages / pages_per_group * group_bytes),
      reports_(players),
      table_{memory_.data(), reports_.data(), seed(), accesses / players + 1} {
  expect(session.devices() == devices, "the game needs its own devices");
}

void SharedPagesGame::play(const std::function<void()>& beside) {
  for (int device = 0; device < devices; ++device) {
    session_.launch(device, workers, [table = table_, device](std::size_t i) {
      table.play(static_cast<unsigned>(host_threads + device * workers) + static_cast<unsigned>(i));
    });
  }
  std::atomic<bool> ended{false};
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < host_threads; ++i) threads.emplace_back([this, i] { table_.play(i); });
  std::thread other([&] {
    while (beside && !ended.load()) beside();
  });
  for (std::thread& thread : threads) thread.join();
  for (int device = 0; device < devices; ++device) CHECK(session_.wait(device) == CUDA_SUCCESS);
  ended.store(true);
  other.join();
}

std::uint64_t SharedPagesGame::check() const {
  std::uint64_t accesses = 0;
  for (unsigned player = 0; player < players; ++player) {
    INFO("player " << player);
    CHECK(reports_[player].lost == 0);
    CHECK(reports_[player].torn == 0);
    CHECK(reports_[player].overtaken == 0);
    accesses += reports_[player].accesses;
  }
  for (unsigned page = 0; page < pages; ++page) {
    INFO("page " << page);
    std::uint64_t increments = 0;
    for (unsigned player = 0; player < players; ++player) {
      increments += reports_[player].increments[page];
      CHECK(table_.page(page).owned[player] == reports_[player].owned[page]);
    }
    CHECK(table_.page(page).counter.load() == increments);
  }
  return accesses;
}

}  // namespace wherry::test
