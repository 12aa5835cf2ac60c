// One run of a litmus pattern: which processors play, where the cells are, and when it ends.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stress/patterns.h"
#include "stress/rig.h"

namespace wherry::test {

// Where the two cells of a pattern are. They move together, or separately under the same block
// lock, or under two block locks. With `one_still` one cell is in memory that never moves and never
// faults, so that even a single read of an old copy is noticed.
enum class Placement {
  same_page,
  same_block,
  other_block,
  one_still,
};
inline constexpr std::array all_placements{Placement::same_page, Placement::same_block,
                                           Placement::other_block, Placement::one_still};
const char* to_string(Placement placement);

inline constexpr int on_host = -1;

struct Match {
  Pattern pattern = Pattern::message_passing;
  Placement placement = Placement::other_block;
  std::vector<int> cast;  // player i's processor: on_host, or a device; at most 6
  std::uint32_t stages = 1;
  std::uint64_t rounds_max = 100'000;
  // A processor that reads the cells now and then, and so rarely waits for a page.
  std::optional<int> visitor;
  bool in_whole_blocks = false;   // the cells' memory consists of whole blocks
  std::uint64_t until_moved = 0;  // stops when this many pages have moved; 0: plays all rounds
  // With until_moved: stops after this time even if fewer pages have moved.
  std::chrono::milliseconds moving_limit{3000};

  std::string describe() const;
};

// `before` is called with the cells' memory before the players start, `meanwhile` repeatedly while
// they play, and `after` before the memory is freed. `after` returns what else was violated.
struct MatchHooks {
  std::function<void(std::byte* memory, std::size_t bytes)> before;
  std::function<void()> meanwhile;
  std::function<std::string()> after = {};
};

// Plays the match on fresh memory, which is freed afterwards. Returns a description of the first
// violation, or an empty string.
std::string play(Rig& rig, const Match& match, const MatchHooks& hooks = {});

}  // namespace wherry::test
