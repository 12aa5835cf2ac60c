// A game of many players on shared pages, each page with everything that can go wrong on it: a
// counter that all increment, words of each player alone, a sequence lock, and messages announced
// on another page. Host threads and kernels of three devices play; every player's sequence of
// operations depends on the seed alone.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "support/session.h"

namespace wherry::test {

class SharedPagesGame {
 public:
  static constexpr int host_threads = 3;
  static constexpr int devices = 3;
  static constexpr int workers = 2;  // of each device
  static constexpr unsigned players = host_threads + devices * workers;
  static constexpr unsigned pages = 512;
  // For the session that it is played in: the pages' regions are 4 MiB, a device holds 2.
  static constexpr const char* device_list =
      "capacity=2M,workers=2;capacity=2M,workers=2;capacity=2M,workers=2";

  // `accesses`: of all players together, about.
  SharedPagesGame(const Session& session, std::uint64_t accesses);

  // The memory on which it is played.
  const Managed<std::byte>& memory() const { return memory_; }

  // Returns when all players have ended. Meanwhile calls `beside` again and again, in a thread of
  // its own, if there is one.
  void play(const std::function<void()>& beside = {});
  // CHECKs that nothing was lost, torn or overtaken. Returns how many accesses there were.
  std::uint64_t check() const;

 private:
  // The page's words are the players'; everything else about it is its one owner's.
  struct alignas(4096) SharedPage {
    std::atomic<std::uint64_t> counter;
    std::array<std::uint64_t, players> owned;
    alignas(64) std::atomic<std::uint64_t> sequence;
    std::array<std::atomic<std::uint64_t>, 4> locked;
    alignas(64) std::atomic<std::uint64_t> message;
    alignas(64) std::atomic<std::uint64_t> flag;  // announces the message on the next page
  };
  struct alignas(4096) Report {
    std::uint64_t accesses;
    std::uint64_t lost;       // own words that somebody else changed
    std::uint64_t torn;       // sequence lock: a mixture was read
    std::uint64_t overtaken;  // a flag without its message, or time running backwards
    std::array<std::uint64_t, pages> increments;
    std::array<std::uint64_t, pages> owned;
  };
  static constexpr unsigned pages_per_group = 8;          // neighbours in one region
  static constexpr std::size_t group_bytes = 512u << 10;  // four groups in a block

  // What a kernel needs to play.
  struct Table {
    std::byte* memory;
    Report* reports;
    std::uint64_t seed;
    std::uint64_t accesses;  // of each player

    SharedPage& page(unsigned number) const {
      number %= pages;
      return *reinterpret_cast<SharedPage*>(memory + number / pages_per_group * group_bytes +
                                            number % pages_per_group * sizeof(SharedPage));
    }
    void play(unsigned player) const;
  };
  class Player;

  const Session& session_;
  const Managed<std::byte> memory_;
  const Managed<Report> reports_;
  const Table table_;
};

}  // namespace wherry::test
