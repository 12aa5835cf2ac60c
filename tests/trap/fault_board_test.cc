// Threads that post their faults, where there are more of them than slots.
#include "trap/fault_board.h"

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "os/process/poll.h"
#include "support/catch.h"
#include "support/conditions.h"

namespace wherry::test::fault_board_test {
namespace {

using namespace wherry::impl;

struct Setup {
  const std::unique_ptr<FaultBoard> board = std::make_unique<FaultBoard>();
  const Fd notifier = make_semaphore();
  const BoardSource source{nullptr, *board, notifier};

  void post(unsigned slot) {
    board->slots[slot].state = FaultSlot::posted;
    signal_eventfd(notifier);
  }
};

}  // namespace

TEST_CASE("a slot that is filled again and again does not keep the handler from the others") {
  Setup s;
  s.post(0);
  s.post(5);
  std::vector<unsigned> read;
  for (int i = 0; i < 4; ++i) {
    const auto message = s.source.read_message();
    REQUIRE(message);
    read.push_back(message->slot);
    s.post(message->slot);
  }
  CHECK(read == std::vector<unsigned>{0, 5, 0, 5});
}

TEST_CASE("of many more threads than slots each gets the answer to each of its faults") {
  Setup s;
  constexpr unsigned threads = 4 * FaultBoard::slots_max;
  constexpr int faults = 20;
  std::atomic<unsigned> wrong{0};
  std::atomic<unsigned> running{threads};
  std::vector<std::thread> posting;
  for (unsigned thread = 0; thread < threads; ++thread)
    posting.emplace_back([&, thread] {
      for (int fault = 0; fault < faults; ++fault) {
        // Odd addresses are refused.
        const std::uintptr_t address = 2 * thread + static_cast<unsigned>(fault) % 2;
        const bool repeats =
            post_fault(*s.board, s.notifier, address, false, FaultLimit::bounded, nullptr);
        if (repeats != (address % 2 == 0)) ++wrong;
      }
      --running;
    });
  std::uint64_t answered = 0;
  while (running != 0) {
    pollfd polled{s.source.fd(), POLLIN, 0};
    (void)poll_descriptors({&polled, 1}, 10);
    const auto message = s.source.read_message();
    if (!message) continue;
    (void)s.source.attend(*message);
    s.source.answered(*message, message->address % 2 != 0);
    ++answered;
  }
  for (std::thread& thread : posting) thread.join();
  CHECK(wrong == 0);
  CHECK(answered == threads * faults);
  CHECK(s.board->sleepers == 0);
  for (const FaultSlot& slot : s.board->slots) CHECK(slot.state == FaultSlot::free);
}

// A handler may take the fault of which another one was notified.
TEST_CASE("several handlers miss no fault") {
  Setup s;
  constexpr unsigned threads = 3;
  std::atomic<unsigned> running{threads};
  std::atomic<std::uint64_t> missed{0};
  std::vector<std::thread> all;
  for (unsigned thread = 0; thread < threads; ++thread)
    all.emplace_back([&] {
      for (std::uint64_t fault = 0; fault < scaled(3'000) && missed == 0; ++fault)
        if (!post_fault(*s.board, s.notifier, 0, false, FaultLimit::bounded, nullptr)) ++missed;
      --running;
    });
  for (unsigned handler = 0; handler < 3; ++handler)
    all.emplace_back([&] {
      while (running != 0)
        if (const auto message = s.source.read_message()) s.source.answered(*message, false);
    });
  for (std::thread& thread : all) thread.join();
  CHECK(missed == 0);
}

}  // namespace wherry::test::fault_board_test
