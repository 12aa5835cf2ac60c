// What players of a litmus pattern report when one of them does not arrive at a stage.
#include "stress/patterns.h"

#include <thread>

#include "support/catch.h"

namespace wherry::test::patterns_test {
namespace {

struct Table {
  Cell x{};
  Cell y{};
  std::array<Score, 2> scores{};
  std::array<Presence, 2> presence{};

  Player player(std::uint32_t part, std::uint64_t limit_ms) {
    Player player{};
    player.pattern = Pattern::read_modify_write;
    player.part = part;
    player.players = 2;
    player.stages = 1;
    player.rounds_max = 3;
    player.x = &x;
    player.y = &y;
    player.score = &scores[part];
    player.presence = presence.data();
    player.arrival_limit_ms = limit_ms;
    return player;
  }
};

constexpr std::uint64_t long_ms = 60'000;

}  // namespace

TEST_CASE("if all players arrive there is no contradiction, however late one of them is") {
  Table table;
  const std::vector<Player> players{table.player(0, long_ms), table.player(1, long_ms)};
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    players[1].play();
  });
  players[0].play();
  late.join();
  CHECK(check_together(players).empty());
}

TEST_CASE("a player that does not arrive is reported as late by its number; no order is violated") {
  Table table;
  const std::vector<Player> players{table.player(0, 200), table.player(1, 200)};
  players[0].play();
  CHECK(table.scores[0].violations == 0);
  const std::string said = check_together(players);
  INFO(said);
  CHECK(said.find("player 1 was late for stage 0") != std::string::npos);
}

TEST_CASE("an arrival that is lost in the cell is a violation, and is found at once") {
  Table table;
  table.x.arrived = ~std::uint64_t{0};  // the value after one of two increments was lost
  const std::vector<Player> players{table.player(0, long_ms), table.player(1, long_ms)};
  std::thread other([&] { players[1].play(); });
  players[0].play();
  other.join();
  CHECK(table.scores[0].late_part == 0);
  CHECK(table.scores[0].violations > 0);
  CHECK(check_together(players).find("expected 2 and saw 1") != std::string::npos);
}

}  // namespace wherry::test::patterns_test
