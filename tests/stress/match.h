// One run of a litmus pattern: who plays, where the words lie, and until when.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "stress/patterns.h"
#include "stress/rig.h"

namespace wherry::test {

// Where the two cells of a pattern lie: they move together, one by one under the same lock, or
// under two locks; or one of them in memory that does not move at all and never faults, which shows
// even a short look at an old copy.
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
  std::optional<int>
      visitor;  // a processor that looks in now and then, and so seldom waits for a page
  std::uint64_t until_moved = 0;  // stops when so many pages have moved; 0: plays all rounds

  std::string describe() const;
};

// Called with the cells' memory before anybody plays; and again and again while they play.
struct MatchHooks {
  std::function<void(std::byte* memory, std::size_t bytes)> before;
  std::function<void()> meanwhile;
};

// Plays it on fresh memory, which is freed afterwards. Returns what was violated; empty when
// nothing was.
std::string play(Rig& rig, const Match& match, const MatchHooks& hooks = {});

}  // namespace wherry::test
