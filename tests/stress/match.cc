#include "stress/match.h"

#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

namespace wherry::test {
namespace {

constexpr std::size_t players_max = 6;
constexpr std::uint32_t visitor_pause_us = 150;
// Less than the limits of a kernel and of the test.
constexpr std::uint64_t arrival_limit_ms = 150'000;

struct Layout {
  std::size_t bytes;  // of managed memory, in total
  std::size_t x_stage_bytes;
  std::size_t y_offset;
  std::size_t y_stage_bytes;
};

Layout layout_of(const Match& match) {
  constexpr std::size_t region = impl::pages_per_region * impl::page_size;
  switch (match.placement) {
    case Placement::same_page:
      return {match.stages * region, region, 2048, region};
    case Placement::same_block:
      return {match.stages * 2 * region, 2 * region, region, 2 * region};
    case Placement::other_block: {
      const std::size_t half = impl::round_up(match.stages * region, impl::block_size);
      return {2 * half, region, half, region};
    }
    case Placement::one_still:
      return {match.stages * region, region, 0, sizeof(Cell)};
  }
  return {};
}

// Kernels get their players by value: one launch per device, one item per player.
struct Team {
  std::array<Player, players_max> players;
  void operator()(std::size_t i) const { players[i].play(); }
};

// Returns when enough pages moved, when every player has played all its rounds, or after the
// match's limit.
void wait_for_moves(Rig& rig, const Match& match, Cell& x, const std::atomic<int>& host_players,
                    const std::vector<int>& launched, const MatchHooks& hooks) {
  const std::uint64_t wanted = rig.pages_moved() + match.until_moved;
  const auto deadline = std::chrono::steady_clock::now() + match.moving_limit;
  const auto all_ended = [&] {
    return host_players.load() == 0 &&
           std::all_of(launched.begin(), launched.end(),
                       [&](int device) { return rig.has_ended(device); });
  };
  while (rig.pages_moved() < wanted && !all_ended() &&
         std::chrono::steady_clock::now() < deadline) {
    ::poll(nullptr, 0, 1);
    if (hooks.meanwhile) hooks.meanwhile();
  }
  x.stop.store(1);
}

}  // namespace

const char* to_string(Placement placement) {
  switch (placement) {
    case Placement::same_page:
      return "one page";
    case Placement::same_block:
      return "two regions of one block";
    case Placement::other_block:
      return "two blocks";
    case Placement::one_still:
      return "one page and memory that does not move";
  }
  return "?";
}

std::string Match::describe() const {
  std::string text = std::string{to_string(pattern)} + " on " + to_string(placement) + " by";
  for (const int processor : cast)
    text += processor == on_host ? " host" : " device" + std::to_string(processor);
  return text;
}

std::string play(Rig& rig, const Match& match, const MatchHooks& hooks) {
  Layout layout = layout_of(match);
  if (match.in_whole_blocks) layout.bytes = impl::round_up(layout.bytes, impl::block_size);
  std::byte* const allocated =
      rig.allocate(layout.bytes + (match.in_whole_blocks ? impl::block_size : 0));
  const auto start = reinterpret_cast<std::uintptr_t>(allocated);
  std::byte* const memory =
      allocated + (match.in_whole_blocks ? impl::round_up(start, impl::block_size) - start : 0);
  std::byte* const scores = rig.allocate(match.cast.size() * impl::page_size);
  const std::size_t log_bytes = match.stages * (match.rounds_max + 1) * sizeof(std::uint32_t);
  std::byte* const logs = rig.allocate(2 * log_bytes);
  if (hooks.before) hooks.before(memory, layout.bytes);

  std::byte* const still =
      rig.zeroed_still_memory(players_max * sizeof(Presence) + match.stages * sizeof(Cell));
  std::byte* const y_start = match.placement == Placement::one_still
                                 ? still + players_max * sizeof(Presence)
                                 : memory + layout.y_offset;
  std::vector<Player> players;
  for (std::size_t i = 0; i < match.cast.size(); ++i) {
    Player player{};
    player.pattern = match.pattern;
    player.part = static_cast<std::uint32_t>(i);
    player.players = static_cast<std::uint32_t>(match.cast.size());
    player.stages = match.stages;
    player.x_stage_bytes = layout.x_stage_bytes;
    player.y_stage_bytes = layout.y_stage_bytes;
    player.rounds_max = match.rounds_max;
    player.pause_us = match.visitor == match.cast[i] ? visitor_pause_us : 0;
    player.x = reinterpret_cast<Cell*>(memory);
    player.y = reinterpret_cast<Cell*>(y_start);
    player.score = reinterpret_cast<Score*>(scores + i * impl::page_size);
    player.presence = reinterpret_cast<Presence*>(still);
    player.arrival_limit_ms = arrival_limit_ms;
    player.log = reinterpret_cast<std::uint32_t*>(logs + (i % 2) * log_bytes);
    players.push_back(player);
  }

  std::atomic<int> host_players{0};
  std::vector<std::thread> threads;
  std::vector<int> launched;
  for (int device = 0; device < rig.runtime().device_count(); ++device) {
    Team team{};
    std::size_t members = 0;
    for (std::size_t i = 0; i < players.size(); ++i)
      if (match.cast[i] == device) team.players[members++] = players[i];
    if (members == 0) continue;
    rig.launch(device, members, team);
    launched.push_back(device);
  }
  for (std::size_t i = 0; i < players.size(); ++i) {
    if (match.cast[i] != on_host) continue;
    ++host_players;
    threads.emplace_back([&, i] {
      players[i].play();
      --host_players;
    });
  }

  if (match.until_moved != 0) {
    wait_for_moves(rig, match, *players[0].x, host_players, launched, hooks);
  }
  for (std::thread& thread : threads) thread.join();
  for (const int device : launched) rig.wait(device);

  std::string violated = check_together(players);
  if (hooks.after)
    if (const std::string further = hooks.after(); violated.empty()) violated = further;
  for (std::byte* const part : {allocated, scores, logs}) rig.free(part);
  return violated;
}

}  // namespace wherry::test
