// Four classic tests of a memory model, as roles that host threads and kernels play on the same
// managed words: message passing, store buffering, a sequence lock, and read-modify-write. Each
// role checks what it can see itself; check_together() checks what only the combination of all
// roles shows.
//
// On hardware with a single memory none can fail. Here each word is on a page that moves while the
// players use it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace wherry::test {

enum class Pattern {
  message_passing,
  store_buffering,
  sequence_lock,
  read_modify_write,
};
inline constexpr std::array all_patterns{Pattern::message_passing, Pattern::store_buffering,
                                         Pattern::sequence_lock, Pattern::read_modify_write};
const char* to_string(Pattern pattern);

// The words of one place. A pattern uses two places, on one page or on pages that move
// independently.
struct alignas(64) Cell {
  std::atomic<std::uint64_t> stop;
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::uint64_t> value;
  std::atomic<std::uint64_t> sequence;
  std::atomic<std::uint64_t> counter;
  std::array<std::atomic<std::uint64_t>, 2> words;
  std::array<std::uint64_t, 8> owned;  // word i is written by player i alone
};

// The result of a player, in managed memory.
struct alignas(64) Score {
  std::uint64_t rounds;
  std::uint64_t violations;
  std::uint64_t expected;  // of the first violation
  std::uint64_t seen;
  std::uint64_t late_part;  // the player that this one waited for in vain, + 1; 0: none
  std::uint64_t late_stage;
};

// A player's own word in memory that never moves: the number of stages it has arrived at.
struct alignas(64) Presence {
  std::atomic<std::uint64_t> stages;
};

// One player. Kernels get it as a copy of its bytes.
struct Player {
  Pattern pattern;
  // 0 and 1 are the pattern's two sides. Further players only read; in read-modify-write they
  // write.
  std::uint32_t part;
  // The number of players; they wait for each other at the start of every stage.
  std::uint32_t players;
  std::uint32_t stages;       // the number of stages, each with fresh cells
  std::size_t x_stage_bytes;  // the distance from one stage's x to the next one's
  std::size_t y_stage_bytes;
  std::uint64_t rounds_max;  // per stage; the host can stop a stage earlier
  std::uint32_t pause_us;    // how long to sleep after each round; 0: not at all
  Cell* x;
  Cell* y;
  Score* score;
  Presence* presence;  // of all players
  // How long a player waits for the others, counting only time in which it runs.
  std::uint64_t arrival_limit_ms;
  std::uint32_t* log;  // store buffering, parts 0 and 1: stages * (rounds_max + 1) entries

  void play() const;
};

// Returns the contradiction in the players' scores and logs, or which player was so late that the
// others stopped waiting; empty if there is none. Requires: all players have ended.
std::string check_together(const std::vector<Player>& players);

}  // namespace wherry::test
