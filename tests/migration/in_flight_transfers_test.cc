// Which transfers are live, and that waiting threads wake when a transfer completes.
#include "migration/in_flight_transfers.h"

#include <atomic>
#include <thread>

#include "migration/at_rest.h"
#include "os/process/thread.h"
#include "support/catch.h"

namespace wherry::test::in_flight_transfers_test {

using namespace wherry::impl;

TEST_CASE("pages are in a transfer until it completes, but not for the thread that carries it") {
  InFlightTransfers transfers;
  transfers.begun({{10}, 4});
  CHECK(transfers.is_live({{13}, 1}));
  CHECK(transfers.is_live({{0}, 11}));
  CHECK_FALSE(transfers.is_live({{14}, 10}));
  CHECK_FALSE(transfers.is_live({{13}, 1}, this_thread_id()));
  transfers.ended({{10}, 4});
  CHECK_FALSE(transfers.is_live({{13}, 1}));
}

TEST_CASE("of two threads that transfer the same pages, each ends its own transfer") {
  InFlightTransfers transfers;
  transfers.begun({{10}, 4});
  std::thread([&] {
    transfers.begun({{10}, 4});
    CHECK(transfers.is_live({{10}, 4}, this_thread_id()));
    transfers.ended({{10}, 4});
  }).join();
  CHECK(transfers.is_live({{10}, 4}));
  transfers.ended({{10}, 4});
  CHECK_FALSE(transfers.is_live({{10}, 4}));
}

TEST_CASE("a transfer whose thread has ended is dead") {
  InFlightTransfers transfers;
  std::thread([&] { transfers.begun({{10}, 4}); }).join();
  // Linux may still list the thread for a moment after the join.
  for (int looks = 0; transfers.is_live({{10}, 4}) && looks < 60'000; ++looks)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  CHECK_FALSE(transfers.is_live({{10}, 4}));
}

TEST_CASE("a thread that waits for pages sleeps until their transfer completes") {
  InFlightTransfers transfers;
  std::atomic<bool> ended{false};
  std::atomic<int> looks{0};
  transfers.begun({{10}, 4});
  std::thread waiter([&] {
    wait_for_rest(
        transfers, {{10}, 4},
        [&] {
          ++looks;
          return ended.load();
        },
        "never");
  });
  while (looks == 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(250));
  // The thread checks at most ten times a second.
  const int looks_asleep = looks;
  ended = true;
  transfers.ended({{10}, 4});
  waiter.join();
  CHECK(looks_asleep < 50);
}

}  // namespace wherry::test::in_flight_transfers_test
