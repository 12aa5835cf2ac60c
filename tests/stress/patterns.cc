#include "stress/patterns.h"

#include <sched.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "support/cpu.h"

namespace wherry::test {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;
constexpr std::chrono::milliseconds longest_turn{100};

Cell& x_at(const Player& player, std::uint32_t stage) {
  return *reinterpret_cast<Cell*>(reinterpret_cast<std::byte*>(player.x) +
                                  stage * player.x_stage_bytes);
}

Cell& y_at(const Player& player, std::uint32_t stage) {
  return *reinterpret_cast<Cell*>(reinterpret_cast<std::byte*>(player.y) +
                                  stage * player.y_stage_bytes);
}

// Holds its numbers on the player's own stack, and records the first violation.
class Judge {
 public:
  void expect_at_least(std::uint64_t seen, std::uint64_t least) {
    if (seen < least) violation(least, seen);
  }
  void expect_equal(std::uint64_t seen, std::uint64_t wanted) {
    if (seen != wanted) violation(wanted, seen);
  }
  void violation(std::uint64_t expected, std::uint64_t seen) {
    if (score_.violations++ != 0) return;
    score_.expected = expected;
    score_.seen = seen;
  }
  void late(std::uint32_t part, std::uint32_t stage) {
    if (score_.late_part != 0) return;
    score_.late_part = part + 1;
    score_.late_stage = stage;
  }
  void round() { ++score_.rounds; }
  const Score& score() const { return score_; }

 private:
  Score score_{};
};

// Pauses for about a microsecond, with a varying length so that players do not run in lockstep.
class Pause {
 public:
  explicit Pause(std::uint64_t seed) : state_(seed * 2 + 1) {}
  void operator()() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    for (std::uint64_t i = state_ % 64; i != 0; --i) spin_pause();
  }

 private:
  std::uint64_t state_;
};

// The first player that has not arrived at the stage, or nothing if all have.
std::optional<std::uint32_t> absent_part(const Player& player, std::uint32_t stage) {
  for (std::uint32_t part = 0; part < player.players; ++part)
    if (player.presence[part].stages.load() <= stage) return part;
  return std::nullopt;
}

// When this returns, all players have accessed the stage's cells. A player counts its arrival in
// the cell first, and then in memory that does not move. If the latter has all arrivals and the
// cell does not, the cell has lost an increment. Otherwise a player is late, possibly because the
// machine is slow.
void meet(const Player& player, std::uint32_t stage, Cell& cell, Judge& judge) {
  cell.arrived.fetch_add(1);
  player.presence[player.part].stages.store(stage + 1);
  const std::chrono::milliseconds limit(player.arrival_limit_ms);
  std::chrono::steady_clock::duration waited{};
  for (auto before = std::chrono::steady_clock::now();;) {
    const auto absent = absent_part(player, stage);
    const std::uint64_t arrived = cell.arrived.load();
    if (arrived >= player.players) return;
    if (!absent) return judge.violation(player.players, arrived);
    if (waited >= limit) return judge.late(*absent, stage);
    ::sched_yield();
    const auto now = std::chrono::steady_clock::now();
    // Time in which this player did not run does not count as waiting.
    waited += std::min<std::chrono::steady_clock::duration>(now - before, longest_turn);
    before = now;
  }
}

template <typename Round>
void repeat(const Player& player, Cell& x, Judge& judge, Round round) {
  Pause pause{player.part + 1};
  for (std::uint64_t n = 1; n <= player.rounds_max && x.stop.load(relaxed) == 0; ++n) {
    round(n);
    judge.round();
    if (player.pause_us != 0) {
      const timespec time{0, player.pause_us * 1000L};
      ::nanosleep(&time, nullptr);
    } else {
      pause();
    }
  }
}

void message_passing(const Player& player, Cell& x, Cell& y, Judge& judge) {
  if (player.part == 0) {
    repeat(player, x, judge, [&](std::uint64_t n) {
      x.value.store(n, relaxed);
      y.value.store(n, std::memory_order_release);
    });
    return;
  }
  std::uint64_t last_flag = 0, last_data = 0;
  repeat(player, x, judge, [&](std::uint64_t) {
    const std::uint64_t flag = y.value.load(std::memory_order_acquire);
    const std::uint64_t data = x.value.load(relaxed);
    judge.expect_at_least(data, flag);
    judge.expect_at_least(flag, last_flag);
    judge.expect_at_least(data, last_data);
    last_flag = flag;
    last_data = data;
  });
}

// QEMU, in which the arm64 build is tested, lets a load overtake a store although both are
// sequentially consistent, also in a program without managed memory (28 to 232 of 300,000 rounds on
// an x86-64 host; none with the barrier).
void keep_order_in_emulator() {
#if defined(__aarch64__)
  std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
}

// Part 0 writes x and reads y, part 1 writes y and reads x. Afterwards the logs show whether both
// missed each other's write.
void store_buffering(const Player& player, Cell& x, Cell& y, Judge& judge, std::uint32_t* log) {
  std::uint64_t last_x = 0, last_y = 0;
  repeat(player, x, judge, [&](std::uint64_t n) {
    if (player.part == 0) {
      x.value.store(n);
      keep_order_in_emulator();
      log[n] = static_cast<std::uint32_t>(y.value.load());
      judge.expect_at_least(log[n], last_y);
      last_y = log[n];
    } else if (player.part == 1) {
      y.value.store(n);
      keep_order_in_emulator();
      log[n] = static_cast<std::uint32_t>(x.value.load());
      judge.expect_at_least(log[n], last_x);
      last_x = log[n];
    } else {
      const std::uint64_t now_x = x.value.load(), now_y = y.value.load();
      judge.expect_at_least(now_x, last_x);
      judge.expect_at_least(now_y, last_y);
      last_x = now_x;
      last_y = now_y;
    }
  });
}

void sequence_lock(const Player& player, Cell& x, Cell& y, Judge& judge) {
  if (player.part == 0) {
    repeat(player, x, judge, [&](std::uint64_t n) {
      x.sequence.store(2 * n - 1, relaxed);
      std::atomic_thread_fence(std::memory_order_release);
      for (Cell* cell : {&x, &y}) {
        for (auto& word : cell->words) word.store(n, relaxed);
      }
      x.sequence.store(2 * n, std::memory_order_release);
    });
    return;
  }
  repeat(player, x, judge, [&](std::uint64_t) {
    const std::uint64_t before = x.sequence.load(std::memory_order_acquire);
    const std::array seen{x.words[0].load(relaxed), x.words[1].load(relaxed),
                          y.words[0].load(relaxed), y.words[1].load(relaxed)};
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 != 0 || x.sequence.load(relaxed) != before) return;
    for (const std::uint64_t word : seen) judge.expect_equal(word, before / 2);
  });
}

void read_modify_write(const Player& player, Cell& x, Cell& y, Judge& judge) {
  std::uint64_t next_x = 0, next_y = 0;
  volatile std::uint64_t* const own_x = &x.owned[player.part];
  volatile std::uint64_t* const own_y = &y.owned[player.part];
  repeat(player, x, judge, [&](std::uint64_t n) {
    const std::uint64_t was_x = x.counter.fetch_add(1);
    const std::uint64_t was_y = y.counter.fetch_add(1);
    judge.expect_at_least(was_x, next_x);
    judge.expect_at_least(was_y, next_y);
    next_x = was_x + 1;
    next_y = was_y + 1;
    judge.expect_equal(*own_x, n - 1);
    judge.expect_equal(*own_y, n - 1);
    *own_x = n;
    *own_y = n;
  });
}

std::string check_counters(const std::vector<Player>& players) {
  std::uint64_t rounds = 0, counted_x = 0, counted_y = 0;
  for (const Player& player : players) rounds += player.score->rounds;
  for (std::uint32_t stage = 0; stage < players[0].stages; ++stage) {
    counted_x += x_at(players[0], stage).counter.load();
    counted_y += y_at(players[0], stage).counter.load();
  }
  if (counted_x == rounds && counted_y == rounds) return {};
  return std::to_string(rounds) + " increments, but the counters say " + std::to_string(counted_x) +
         " and " + std::to_string(counted_y);
}

// In round i part 0 wrote x = i and then read y = a. So part 1 wrote a + 1 later, and its read of x
// after that write must have seen at least i.
std::string check_logs(const Player& a, const Player& b) {
  for (std::uint32_t stage = 0; stage < a.stages; ++stage) {
    const std::uint32_t* const log_a = a.log + stage * (a.rounds_max + 1);
    const std::uint32_t* const log_b = b.log + stage * (b.rounds_max + 1);
    const std::uint64_t rounds_a = x_at(a, stage).value.load();
    const std::uint64_t rounds_b = y_at(a, stage).value.load();
    for (std::uint64_t i = 1; i <= rounds_a; ++i) {
      const std::uint64_t next = log_a[i] + std::uint64_t{1};
      if (next <= rounds_b && log_b[next] < i) {
        return "x = " + std::to_string(i) + " did not see y = " + std::to_string(next) +
               ", which saw x = " + std::to_string(log_b[next]);
      }
    }
  }
  return {};
}

}  // namespace

const char* to_string(Pattern pattern) {
  switch (pattern) {
    case Pattern::message_passing:
      return "message passing";
    case Pattern::store_buffering:
      return "store buffering";
    case Pattern::sequence_lock:
      return "sequence lock";
    case Pattern::read_modify_write:
      return "read-modify-write";
  }
  return "?";
}

void Player::play() const {
  Judge judge;
  for (std::uint32_t stage = 0; stage < stages; ++stage) {
    Cell& here_x = x_at(*this, stage);
    Cell& here_y = y_at(*this, stage);
    meet(*this, stage, here_x, judge);
    switch (pattern) {
      case Pattern::message_passing:
        message_passing(*this, here_x, here_y, judge);
        break;
      case Pattern::store_buffering:
        store_buffering(*this, here_x, here_y, judge, log + stage * (rounds_max + 1));
        break;
      case Pattern::sequence_lock:
        sequence_lock(*this, here_x, here_y, judge);
        break;
      case Pattern::read_modify_write:
        read_modify_write(*this, here_x, here_y, judge);
        break;
    }
  }
  *score = judge.score();
}

std::string check_together(const std::vector<Player>& players) {
  for (const Player& player : players) {
    if (player.score->violations != 0) {
      return "player " + std::to_string(player.part) + ": " +
             std::to_string(player.score->violations) + " violations in " +
             std::to_string(player.score->rounds) + " rounds, the first expected " +
             std::to_string(player.score->expected) + " and saw " +
             std::to_string(player.score->seen);
    }
  }
  for (const Player& player : players) {
    if (player.score->late_part != 0)
      return "nothing is lost, but player " + std::to_string(player.score->late_part - 1) +
             " was late for stage " + std::to_string(player.score->late_stage) + ": player " +
             std::to_string(player.part) + " waited for " +
             std::to_string(player.arrival_limit_ms) + " ms";
  }
  if (players[0].pattern == Pattern::read_modify_write) return check_counters(players);
  if (players[0].pattern == Pattern::store_buffering) return check_logs(players[0], players[1]);
  return {};
}

}  // namespace wherry::test
