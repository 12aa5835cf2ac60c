// What a course of tests/stress/parts_litmus.cc has beside the players: blocks that come to a pool
// as huge pages, and of which parts leave; threads that check and count on every page of them; and
// a pipe that holds pages.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "stress/course.h"

namespace wherry::test {

// Words of the test at the end of each page, which the cells of the patterns leave free.
struct PageWords {
  std::uint64_t mark;
  std::uint64_t visits[2];  // by the host and by device 0

  static constexpr std::size_t offset = impl::page_size - 64;
  static volatile PageWords& of(std::byte* memory, std::size_t page) {
    return *reinterpret_cast<volatile PageWords*>(memory + page * impl::page_size + offset);
  }
  static std::uint64_t mark_of(std::size_t page) { return (page + 1) * 0x9e37'79b9'7f4a'7c15; }
};

// The host and device 0 take turns at regions of the blocks: each checks what it wrote before, and
// writes.
class Visitors {
 public:
  // To be constructed before the course's devices start. `kept`: how many pages of each block are
  // visited; the others are left alone.
  explicit Visitors(unsigned kept = impl::pages_per_block);

  void begin(std::byte* memory, std::size_t bytes);
  void visit_by_host();
  void visit_by_device(Rig& rig);
  // Waits for device 0. Returns what was wrong.
  std::string end(Rig& rig);

 private:
  static constexpr std::size_t turns = 8;  // a visit is to every eighth region
  struct Visit {
    std::byte* memory;
    std::size_t pages;
    unsigned kept;
    unsigned visitor;
    std::uint64_t number;
    std::atomic<std::uint64_t>* wrong;

    void operator()() const;
  };
  Visit next_of(unsigned visitor) {
    return {memory_, pages_, kept_, visitor, numbers_.at(visitor), wrong_};
  }

  std::atomic<std::uint64_t>* const wrong_;  // in memory that all processes share
  const unsigned kept_;
  std::byte* memory_ = nullptr;
  std::size_t pages_ = 0;
  std::array<std::uint64_t, 2> numbers_{};
};

// A pipe that gets pages of the memory, has them for some milliseconds, and is read then: it holds
// what the pages contained at some moment in between. A thread does that until stop().
class PipeHolder {
 public:
  PipeHolder();
  ~PipeHolder();
  PipeHolder(const PipeHolder&) = delete;
  PipeHolder& operator=(const PipeHolder&) = delete;

  // Requires: the words that Visitors::begin() has written.
  void start(std::byte* memory, std::size_t bytes);
  // Returns what was wrong.
  std::string stop();
  // How many pages were in the pipe so far. 0 where Linux does not answer faults in system calls.
  std::uint64_t held_pages() const { return held_pages_; }

 private:
  void hold_until_stopped();
  void hold(std::size_t first, std::size_t count);

  std::array<int, 2> ends_{};
  std::byte* memory_ = nullptr;
  std::size_t pages_ = 0;
  std::atomic<bool> stops_{false};
  std::uint64_t held_pages_ = 0;
  std::string violated_;
  std::mt19937_64 random_{seed()};
  std::thread thread_;
};

// Brings the blocks to one place after another as huge pages, and has parts of them leave.
class HugeParts {
 public:
  HugeParts(Rig& rig, std::vector<impl::Location> homes) : rig_(rig), homes_(std::move(homes)) {}

  void begin(std::byte* memory, std::size_t bytes);
  // The blocks come to the next place.
  void gather();
  // Parts of 1 to 16 pages go to other places: one with the first pages, and some others.
  void scatter();
  // The contents of some pages behind the `kept` first ones of each block are discarded.
  void discard(unsigned kept);

  // Throws std::runtime_error unless Linux has shown a huge page in each of the places, and parts
  // have left it.
  void require_parted() const;

 private:
  std::size_t draw(std::size_t low, std::size_t high) {
    return std::uniform_int_distribution<std::size_t>(low, high)(random_);
  }
  void gather_at(const impl::Location& home);
  bool is_huge_at(const impl::Location& home) const;
  pid_t process_of(const impl::Location& home) const;

  Rig& rig_;
  const std::vector<impl::Location> homes_;
  std::vector<std::uint64_t> huge_seen_ = std::vector<std::uint64_t>(homes_.size());
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t begun_ = 0;
  std::size_t turns_ = 0;
  std::mt19937_64 random_{seed()};
};

// Hooks of a course in which parts leave their blocks while visitors use them, and a pipe holds
// some of the pages. `share`: called before that with the course's memory; may be empty.
MatchHooks hooks_with_holder(Rig& rig, HugeParts& parts, Visitors& visitors, PipeHolder& holder,
                             std::function<void(std::byte*, std::size_t)> share = {});

}  // namespace wherry::test
