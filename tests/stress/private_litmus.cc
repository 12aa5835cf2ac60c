// Managed memory becomes private memory under threads that write it, with a delay injected at each
// step. Each thread counts in words of its own, on pages that all threads share.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "stress/rig.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/conditions.h"

namespace wherry::test::private_litmus_test {
namespace {

constexpr std::size_t blocks = 2;
constexpr std::size_t bytes = blocks * impl::block_size;
constexpr std::size_t words_per_page = impl::page_size / sizeof(std::uint64_t);
constexpr std::size_t step_words = 32 * words_per_page;
constexpr int threads = 3;

class Writers {
 public:
  explicit Writers(std::uint64_t* words) : words_(words) {
    for (int i = 0; i < threads; ++i)
      threads_.emplace_back([this, i] { count(static_cast<std::size_t>(i)); });
  }
  // Stops them. Throws std::runtime_error if a write was lost.
  void check() {
    stops_ = true;
    for (std::thread& thread : threads_) thread.join();
    for (std::size_t i = 0; i < threads; ++i)
      for (std::size_t at = i; at < bytes / sizeof(std::uint64_t); at += step_words)
        if (words_[at] != counts_[i])
          throw std::runtime_error("thread " + std::to_string(i) + " wrote " +
                                   std::to_string(counts_[i]) + " times, and " +
                                   std::to_string(words_[at]) + " arrived");
  }

 private:
  void count(std::size_t own) {
    while (!stops_) {
      for (std::size_t at = own; at < bytes / sizeof(std::uint64_t); at += step_words) {
        volatile std::uint64_t& word = words_[at];
        word = word + 1;
      }
      ++counts_[own];
    }
  }

  std::uint64_t* const words_;
  std::atomic<bool> stops_{false};
  std::uint64_t counts_[threads] = {};
  std::vector<std::thread> threads_;
};

// Removes entries of the pages from the host's page table, all the time.
class Samples {
 public:
  Samples(Rig& rig, const std::byte* memory)
      : thread_([this, &rig, memory] {
          for (std::size_t at = 0; !stops_; at = (at + step_words * sizeof(std::uint64_t)) % bytes)
            rig.sample(memory + at);
        }) {}
  ~Samples() {
    stops_ = true;
    thread_.join();
  }

 private:
  std::atomic<bool> stops_{false};
  std::thread thread_;
};

void play(Rig& rig, const Injection& injection, std::uint64_t round) {
  std::byte* const memory = rig.allocate(bytes);
  if (round % 2 == 0) {
    rig.prefetch(memory, bytes, impl::Location::device(0));
    rig.wait_for_prefetches();
  }
  rig.injector().set(injection);
  Writers writers(reinterpret_cast<std::uint64_t*>(memory));
  std::this_thread::sleep_for(std::chrono::milliseconds{2});
  {
    const Samples samples(rig, memory);
    const auto result =
        rig.runtime().ordinary_use().make_private(reinterpret_cast<std::uintptr_t>(memory));
    if (result != impl::OrdinaryUse::Result::done) throw std::runtime_error("not made private");
  }
  std::this_thread::sleep_for(std::chrono::milliseconds{1});
  writers.check();
  rig.injector().set({});
  ::munmap(memory, bytes);
}

TEST_CASE("no write is lost while memory becomes private, whatever step is slow") {
  const Outcome outcome = in_fresh_process([] {
    Rig& rig = Rig::start("kind=coherent,capacity=64M,workers=1", impl::pages_per_region, 1);
    const std::uint64_t rounds = scaled(6);
    for (const Step step : {Step::protect, Step::punch, Step::map, Step::wake, Step::unprotect,
                            Step::forget, Step::zero, Step::fill}) {
      for (const Trouble trouble :
           {Trouble::none, Trouble::delay_before, Trouble::delay_after, Trouble::again}) {
        if (trouble != Trouble::none && !can_happen(step, trouble)) continue;
        // A page that a sample has chosen may become private before the sample drops its entry.
        const int delay_us = step == Step::forget ? 3000 : 300;
        const Injection injection{step, trouble, -1, delay_us};
        for (std::uint64_t round = 0; round < rounds; ++round) {
          try {
            play(rig, injection, round);
          } catch (const std::runtime_error& error) {
            throw std::runtime_error(injection.describe() + ": " + error.what());
          }
        }
      }
    }
  });
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

}  // namespace
}  // namespace wherry::test::private_litmus_test
