// The four classic tests of a memory model, as roles that host threads and kernels play on the same
// managed words: message passing, store buffering, a sequence lock, and read-modify-write. Each
// role checks what it can see itself; check_together() checks what only all roles together show.
//
// On hardware with one memory none can fail. Here each word lives on a page that moves under the
// players.
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

// What a player reports, in managed memory.
struct alignas(64) Score {
  std::uint64_t rounds;
  std::uint64_t violations;
  std::uint64_t expected;  // of the first violation
  std::uint64_t seen;
  std::uint64_t late_part;  // the player that this one waited for in vain, + 1; 0: none
  std::uint64_t late_stage;
};

// A player's own word in memory that never moves: how many stages it has arrived at.
struct alignas(64) Presence {
  std::atomic<std::uint64_t> stages;
};

// One player. Copied as bytes into kernels.
struct Player {
  Pattern pattern;
  std::uint32_t part;         // 0 and 1 are the pattern's two sides; further ones look on (or,
                              // read-modify-write, join)
  std::uint32_t players;      // in all: they wait for each other at the start of every stage
  std::uint32_t stages;       // how often with fresh cells
  std::size_t x_stage_bytes;  // from one stage's x to the next one's
  std::size_t y_stage_bytes;
  std::uint64_t rounds_max;  // per stage; the host can stop a stage earlier
  std::uint32_t pause_us;    // sleeps so long after each round; 0: goes on at once
  Cell* x;
  Cell* y;
  Score* score;
  Presence* presence;              // every player's
  std::uint64_t arrival_limit_ms;  // how long a player waits for the others, while it runs itself
  std::uint32_t* log;  // store buffering, parts 0 and 1: stages * (rounds_max + 1) entries

  void play() const;
};

// What the players' scores and logs contradict, or which player was late for so long that the
// others gave up; empty when nothing. Called after all have ended.
std::string check_together(const std::vector<Player>& players);

}  // namespace wherry::test
