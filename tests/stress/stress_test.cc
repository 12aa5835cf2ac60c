// Host threads and three devices, all at once, on pages that are shared, falsely shared, evicted and handed around:
// no increment is lost, no value is torn, no message overtakes its data. Ten million accesses, drawn from a printed
// seed; every player's sequence of operations depends on the seed alone.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <random>
#include <thread>

#include "support/conditions.h"
#include "support/session.h"

namespace wherry::test {
namespace {

constexpr int host_threads = 3;
constexpr int devices = 3;
constexpr int workers = 2;
constexpr unsigned players = host_threads + devices * workers;
constexpr unsigned pages = 512;
constexpr unsigned pages_per_group = 8;  // neighbours in one region
constexpr std::size_t group_bytes =
    512u << 10;  // four groups in a block; their regions are 4 MiB, a device holds 2
constexpr std::uint64_t accesses_wanted = 10'000'000;

// One page: a counter that everybody increments, a word for each player alone, a sequence lock and a mailbox, both
// written by the page's one owner.
struct alignas(4096) SharedPage {
  std::atomic<std::uint64_t> counter;
  std::array<std::uint64_t, players> owned;
  alignas(64) std::atomic<std::uint64_t> sequence;
  std::array<std::atomic<std::uint64_t>, 4> locked;
  alignas(64) std::atomic<std::uint64_t> message;
  alignas(64) std::atomic<std::uint64_t> flag;  // announces the message on the next page
};

struct alignas(4096) Report {
  std::uint64_t accesses;
  std::uint64_t lost;       // own words that somebody else changed
  std::uint64_t torn;       // sequence lock: a mixture was read
  std::uint64_t overtaken;  // a flag without its message, or time running backwards
  std::array<std::uint64_t, pages> increments;
  std::array<std::uint64_t, pages> owned;
};

struct Game {
  std::byte* memory;
  Report* reports;
  std::uint64_t seed;
  std::uint64_t accesses;  // of each player

  SharedPage& page(unsigned number) const {
    number %= pages;
    return *reinterpret_cast<SharedPage*>(memory + number / pages_per_group * group_bytes +
                                          number % pages_per_group * sizeof(SharedPage));
  }
  void play(unsigned player) const;
};

class Player {
 public:
  Player(const Game& game, unsigned number)
      : game_(game), number_(number), random_(game.seed * 1000 + number) {}

  void play() {
    while (report_.accesses < game_.accesses) {
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
    game_.reports[number_] = report_;
  }

 private:
  bool owns(unsigned page) const { return page % players == number_; }

  void count_together(unsigned number, unsigned burst) {
    SharedPage& page = game_.page(number);
    for (unsigned i = 0; i < burst; ++i) page.counter.fetch_add(1);
    report_.increments[number] += burst;
    report_.accesses += burst;
  }

  void count_alone(unsigned number, unsigned burst) {
    volatile std::uint64_t& own = game_.page(number).owned[number_];
    for (unsigned i = 0; i < burst; ++i) {
      if (own != report_.owned[number]) ++report_.lost;
      own = ++report_.owned[number];
    }
    report_.accesses += 2 * burst;
  }

  void write_locked(unsigned number, unsigned burst) {
    SharedPage& page = game_.page(number);
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
    SharedPage& page = game_.page(number);
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

  // The message lies on the next page, so that the two move independently.
  void send(unsigned number, unsigned burst) {
    std::atomic<std::uint64_t>& flag = game_.page(number).flag;
    std::atomic<std::uint64_t>& message = game_.page(number + pages_per_group).message;
    std::uint64_t last = flag.load(std::memory_order_relaxed);
    for (unsigned i = 0; i < burst; ++i) {
      message.store(++last, std::memory_order_relaxed);
      flag.store(last, std::memory_order_release);
    }
    report_.accesses += 2 * burst;
  }

  void receive(unsigned number, unsigned burst) {
    std::atomic<std::uint64_t>& flag = game_.page(number).flag;
    std::atomic<std::uint64_t>& message = game_.page(number + pages_per_group).message;
    std::uint64_t last = 0;
    for (unsigned i = 0; i < burst; ++i) {
      const std::uint64_t announced = flag.load(std::memory_order_acquire);
      const std::uint64_t found = message.load(std::memory_order_relaxed);
      if (found < announced || announced < last) ++report_.overtaken;
      last = announced;
    }
    report_.accesses += 2 * burst;
  }

  const Game& game_;
  const unsigned number_;
  std::mt19937_64 random_;
  Report report_{};  // on the player's own stack until the end
};

void Game::play(unsigned player) const {
  Player{*this, player}.play();
}

TEST_CASE(
    "nothing is lost, torn or overtaken in ten million accesses by the host and three devices",
    "[stress]") {
  const Session session{"capacity=2M,workers=2;capacity=2M,workers=2;capacity=2M,workers=2"};
  REQUIRE(session.devices() == devices);
  const Managed<std::byte> memory{pages / pages_per_group * group_bytes};
  const Managed<Report> reports{players};
  const Game game{memory.data(), reports.data(), seed(), scaled(accesses_wanted) / players + 1};

  for (int device = 0; device < devices; ++device) {
    session.launch(device, workers, [game, device](std::size_t i) {
      game.play(static_cast<unsigned>(host_threads + device * workers) + static_cast<unsigned>(i));
    });
  }
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < host_threads; ++i) threads.emplace_back([&game, i] { game.play(i); });
  for (std::thread& thread : threads) thread.join();
  for (int device = 0; device < devices; ++device) WHERRY_TRY(session.wait(device));

  std::uint64_t accesses = 0;
  for (unsigned player = 0; player < players; ++player) {
    INFO("player " << player);
    CHECK(reports[player].lost == 0);
    CHECK(reports[player].torn == 0);
    CHECK(reports[player].overtaken == 0);
    accesses += reports[player].accesses;
  }
  CHECK(accesses >= scaled(accesses_wanted));
  for (unsigned page = 0; page < pages; ++page) {
    INFO("page " << page);
    std::uint64_t increments = 0;
    for (unsigned player = 0; player < players; ++player) {
      increments += reports[player].increments[page];
      CHECK(game.page(page).owned[player] == reports[player].owned[page]);
    }
    CHECK(game.page(page).counter.load() == increments);
  }
  const wherryStats stats = read_stats();
  std::printf("%llu accesses, %llu faults, %llu pages migrated, %llu evicted\n",
              static_cast<unsigned long long>(accesses),
              static_cast<unsigned long long>(stats.faults_missing + stats.faults_minor +
                                              stats.faults_write_protect),
              static_cast<unsigned long long>(stats.migrated_in),
              static_cast<unsigned long long>(stats.evicted));
  CHECK(stats.migrated_in > 0);
  CHECK(stats.evicted > 0);
}

}  // namespace
}  // namespace wherry::test
