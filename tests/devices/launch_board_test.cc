#include "devices/launch_board.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::impl::launch_board_test {
namespace {

LaunchRequest request(std::uint64_t id, std::size_t items) {
  LaunchRequest request;
  request.id = id;
  request.address = 0x1000 + id;
  request.items = items;
  return request;
}

struct Fixture {
  std::unique_ptr<LaunchBoard> board = std::make_unique<LaunchBoard>();
};

TEST_CASE("A launch is split into contiguous pieces, one per worker, that cover its items once") {
  Fixture f;
  LaunchPoster poster(*f.board, 3);
  LaunchRequest posted = request(5, 11);
  int argument = 77;
  posted.args = &argument;
  posted.args_size = sizeof argument;
  REQUIRE(poster.try_post(posted));
  argument = 0;
  std::size_t next = 0;
  for (int i = 0; i < 3; ++i) {
    const auto piece = try_take_piece(*f.board);
    REQUIRE(piece);
    CHECK(piece->begin == next);
    CHECK(piece->end > piece->begin);
    CHECK(piece->launch_id == 5);
    CHECK(piece->kernel == 0x1005);
    CHECK(*static_cast<const int*>(piece->args) == 77);
    next = piece->end;
  }
  CHECK(next == 11);
  CHECK_FALSE(try_take_piece(*f.board));
}

TEST_CASE("A launch of fewer items than workers has as many pieces as items") {
  Fixture f;
  LaunchPoster poster(*f.board, 8);
  REQUIRE(poster.try_post(request(1, 2)));
  CHECK(try_take_piece(*f.board));
  CHECK(try_take_piece(*f.board));
  CHECK_FALSE(try_take_piece(*f.board));
}

TEST_CASE("Pieces of a launch of higher priority are taken first") {
  Fixture f;
  LaunchPoster poster(*f.board, 2);
  for (const int priority : {0, -2, greatest_priority, -2}) {
    LaunchRequest posted = request(static_cast<std::uint64_t>(-priority), 2);
    posted.priority = priority;
    REQUIRE(poster.try_post(posted));
  }
  std::vector<std::uint64_t> order;
  while (const auto piece = try_take_piece(*f.board)) order.push_back(piece->launch_id);
  CHECK(order == std::vector<std::uint64_t>{5, 5, 2, 2, 2, 2, 0, 0});
}

TEST_CASE("A launch is complete when its last piece is, and is reported once") {
  Fixture f;
  LaunchPoster poster(*f.board, 2);
  REQUIRE(poster.try_post(request(9, 2)));
  const auto first = try_take_piece(*f.board);
  const auto second = try_take_piece(*f.board);
  REQUIRE((first && second));
  CHECK_FALSE(finish_piece(*f.board, *second));
  CHECK(poster.take_completed().empty());
  CHECK(finish_piece(*f.board, *first));
  CHECK(poster.take_completed() == std::vector<std::uint64_t>{9});
  CHECK(poster.take_completed().empty());
}

TEST_CASE("A launch of no items is complete at once and gives no worker a piece") {
  Fixture f;
  LaunchPoster poster(*f.board, 2);
  REQUIRE(poster.try_post(request(3, 0)));
  CHECK_FALSE(try_take_piece(*f.board));
  CHECK(poster.take_completed() == std::vector<std::uint64_t>{3});
}

TEST_CASE("A full board declines a launch until the host has taken a completed one") {
  Fixture f;
  LaunchPoster poster(*f.board, 1);
  for (std::uint64_t id = 0; id < launch_slots; ++id) REQUIRE(poster.try_post(request(id, 1)));
  CHECK_FALSE(poster.try_post(request(99, 1)));
  const auto piece = try_take_piece(*f.board);
  REQUIRE(piece);
  CHECK(finish_piece(*f.board, *piece));
  CHECK_FALSE(poster.try_post(request(99, 1)));
  CHECK(poster.take_completed().size() == 1);
  CHECK(poster.try_post(request(99, 1)));
}

TEST_CASE("The host ignores a completion of a launch that it never posted") {
  Fixture f;
  LaunchPoster poster(*f.board, 1);
  f.board->done = ~std::uint64_t{0};
  CHECK(poster.take_completed().empty());
}

TEST_CASE("Workers that race for pieces run each item of each launch exactly once") {
  Fixture f;
  constexpr int workers = 4;
  const std::uint64_t launches = test::scaled(20'000);
  constexpr std::size_t items_limit = 7;
  LaunchPoster poster(*f.board, workers);
  std::vector<std::atomic<int>> runs(launches * items_limit);
  std::atomic<bool> stop = false;

  std::vector<std::thread> threads;
  for (int i = 0; i < workers; ++i) {
    threads.emplace_back([&] {
      while (!stop) {
        const auto piece = try_take_piece(*f.board);
        if (!piece) {
          std::this_thread::yield();
          continue;
        }
        for (std::size_t item = piece->begin; item < piece->end; ++item)
          ++runs[piece->launch_id * items_limit + item];
        static_cast<void>(finish_piece(*f.board, *piece));
      }
    });
  }
  std::vector<int> reported(launches);
  std::uint64_t posted = 0;
  std::uint64_t finished = 0;
  while (finished < launches) {
    while (posted < launches && poster.try_post(request(posted, 1 + posted % items_limit)))
      ++posted;
    for (const auto id : poster.take_completed()) {
      ++reported[id];
      ++finished;
      for (std::size_t item = 0; item < items_limit; ++item)
        REQUIRE(runs[id * items_limit + item] == (item <= id % items_limit ? 1 : 0));
    }
  }
  stop = true;
  for (auto& thread : threads) thread.join();
  CHECK(std::ranges::count(reported, 1) == static_cast<std::ptrdiff_t>(launches));
}

TEST_CASE(
    "a failure record that a kernel has overwritten is read with values inside their limits") {
  FailureRecord record{};
  CHECK_FALSE(read_failure(record));
  std::memset(static_cast<void*>(&record), 0xff, sizeof record);
  CHECK_FALSE(read_failure(record));
  record.state = FailureRecord::State::complete;
  std::memset(record.what, 'x', sizeof record.what);
  record.what[3] = '\n';
  const auto failure = read_failure(record);
  REQUIRE(failure);
  CHECK(failure->kind == DeviceFailure::Kind::lost);
  CHECK(failure->what == "xxx " + std::string(sizeof record.what - 4, 'x'));
}

}  // namespace
}  // namespace wherry::impl::launch_board_test
