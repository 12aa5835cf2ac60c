// Pages of coherent devices follow the threads that use them, although mapped pages do not fault.
#include <wherry/explain.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string_view>
#include <thread>
#include <vector>
#include <wherry/wherry.hpp>

#include "support/catch.h"
#include "support/coherent_threads.h"
#include "support/conditions.h"
#include "support/stage.h"
#include "support/waiting.h"

namespace wherry::test::usage_sampling_test {

namespace {

constexpr int patience_ms = 60'000;

Stage& stage() {
  // Samples may take 20 % of the CPU time instead of 2 %, so they come sooner.
  static Stage the_stage(
      "kind=coherent,capacity=64M,workers=1;kind=coherent,capacity=64M,workers=1",
      "WHERRY_SAMPLING", "20");
  return the_stage;
}

void touch_all(const Words& words) {
  for (std::size_t i = 0; i < words.size(); i += page_words)
    __atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
}

// Touches the words until all their pages are at the processor. Returns false if that takes too
// long.
bool comes_to(int where, const Words& words) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 100; ++i) touch_all(words);
    if (pages_not_at(stage(), words, where) == 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("pages follow the threads that use them, and a new phase moves them again", "[system]") {
  Stage& s = stage();
  const Words words{4 * block_words};
  s.write_pages(host, words.data(), words.bytes(), 1);
  REQUIRE(pages_not_at(stage(), words, host) == 0);
  for (const int user : {device0, device1, host, device1}) {
    CAPTURE(user);
    bool came = false;
    on_thread_of(user, [&] { came = comes_to(user, words); });
    CHECK(came);
  }
}

TEST_CASE("faults and moves that come from samples say so", "[system]") {
  Stage& s = stage();
  const Words words{2 * block_words};
  s.write_pages(host, words.data(), words.bytes(), 1);
  constexpr std::uint64_t kinds =
      WHERRY_EVENT_BIT(WHERRY_EVENT_FAULT) | WHERRY_EVENT_BIT(WHERRY_EVENT_MIGRATION);
  WHERRY_TRY(wherryStartEvents(kinds, 0));
  bool came = false;
  on_thread_of(device0, [&] { came = comes_to(device0, words); });
  REQUIRE(came);
  // A thread that waits for a change of its view goes on as soon as that is made. The handler
  // answers its fault, and notes the decision and the events, when it looks at the fault again.
  bool faulted = false;
  bool moved = false;
  CHECK(comes_true([&] {
    const std::vector<wherryEvent> events = read_events(16384);
    const auto are_of_samples = [&](int kind) {
      return std::ranges::any_of(events, [kind](const wherryEvent& event) {
        return event.kind == kind && event.cause == WHERRY_CAUSE_SAMPLE &&
               event.destination == index_of(device0);
      });
    };
    faulted = faulted || are_of_samples(WHERRY_EVENT_FAULT);
    moved = moved || are_of_samples(WHERRY_EVENT_MIGRATION);
    return faulted && moved;
  }));
  WHERRY_TRY(wherryStopEvents());

  wherryExplanation explanation{};
  explanation.size = sizeof explanation;
  // The newest decision may still be about a sample that was taken while the host wrote the page.
  CHECK(comes_true([&] {
    WHERRY_TRY(wherryExplainPage(address_of(words.data()), &explanation));
    return explanation.decisions > 0 && explanation.decision[0].cause == WHERRY_CAUSE_SAMPLE &&
           explanation.decision[0].faulting_processor == index_of(device0);
  }));
  std::array<char, 4096> text{};
  WHERRY_TRY(wherryDescribePage(address_of(words.data()), text.data(), text.size(), nullptr));
  CHECK(std::string_view(text.data()).find("device 0 wrote it, as samples show") !=
        std::string_view::npos);
}

TEST_CASE("pages that two processors use alike move rarely, and lose nothing", "[system]") {
  Stage& s = stage();
  const Words words{2 * block_words};
  s.write_pages(host, words.data(), words.bytes(), 0);
  const auto rounds = static_cast<int>(scaled(20'000));
  const std::uint64_t moved = read_stats().migrated_in;
  std::array<std::thread, 2> threads;
  for (std::size_t i = 0; i < threads.size(); ++i)
    threads[i] = std::thread([&, i] {
      on_thread_of(i == 0 ? host : device0, [&] {
        for (int round = 0; round < rounds; ++round) touch_all(words);
      });
    });
  for (std::thread& thread : threads) thread.join();
  // If each sample moved its block, that would be hundreds of moves.
  CHECK(read_stats().migrated_in - moved < 40 * words.size() / page_words);
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (words[i] != 2 * static_cast<std::uint64_t>(rounds)) FAIL("page " << i / page_words);
}

TEST_CASE("blocks that stay small pages follow as well", "[system]") {
  Stage& s = stage();
  const Words words{2 * block_words - page_words};  // the last block is not whole
  s.write_pages(host, words.data(), words.bytes(), 1);
  bool came = false;
  on_thread_of(device1, [&] { came = comes_to(device1, words); });
  CHECK(came);
}

}  // namespace wherry::test::usage_sampling_test
