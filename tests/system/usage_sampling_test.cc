// Pages of coherent devices follow the threads that use them, although mapped pages do not fault.
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <wherry/wherry.hpp>

#include "support/conditions.h"
#include "support/stage.h"

using namespace wherry::test;

namespace {

constexpr std::size_t block_words = (std::size_t{2} << 20) / sizeof(std::uint64_t);
constexpr int patience_ms = 60'000;

Stage& stage() {
  static Stage the_stage = [] {
    ::setenv("WHERRY_SAMPLING", "20", 1);  // samples come sooner
    return Stage{"kind=coherent,capacity=64M,workers=1;kind=coherent,capacity=64M,workers=1"};
  }();
  return the_stage;
}

std::size_t pages_not_at(const Words& words, int where) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < words.size(); i += page_words)
    if (stage().residents(&words[i]) != bit_of(where)) ++wrong;
  return wrong;
}

void touch_all(const Words& words) {
  for (std::size_t i = 0; i < words.size(); i += page_words)
    __atomic_fetch_add(&words[i], 1, __ATOMIC_RELAXED);
}

// Runs function() on a thread that counts as the processor.
template <typename Function>
void on_thread_of(int processor, const Function& function) {
  std::thread([&] {
    if (processor == host) return function();
    const wherry::attached counts{wherry::device(processor)};
    function();
  }).join();
}

// Touches the words until all their pages are at the processor. Returns false if that takes too
// long.
bool comes_to(int where, const Words& words) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(patience_ms);
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 100; ++i) touch_all(words);
    if (pages_not_at(words, where) == 0) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("pages follow the threads that use them, and a new phase moves them again", "[system]") {
  Stage& s = stage();
  const Words words{4 * block_words};
  s.write_pages(host, words.data(), words.bytes(), 1);
  REQUIRE(pages_not_at(words, host) == 0);
  for (const int user : {device0, device1, host, device1}) {
    CAPTURE(user);
    bool came = false;
    on_thread_of(user, [&] { came = comes_to(user, words); });
    CHECK(came);
  }
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
