// A game of many players on shared pages. Each page has a counter that all players increment, words
// that belong to one player each, a sequence lock, and messages announced on another page. Host
// threads and kernels of three devices play. Every player's sequence of operations depends on the
// seed alone.
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
  static constexpr unsigned pages = 1024;
  // Devices for the session: the pages' regions take 8 MiB, and each device holds 2.
  static constexpr const char* device_list =
      "capacity=2M,workers=2;capacity=2M,workers=2;capacity=2M,workers=2";

  // `accesses`: the approximate total of all players.
  SharedPagesGame(const Session& session, std::uint64_t accesses);

  // The memory that the game uses.
  const Managed<std::byte>& memory() const { return memory_; }

  // Returns when all players have ended. Meanwhile calls `beside` repeatedly in a thread of its
  // own, if it is given.
  void play(const std::function<void()>& beside = {});
  // CHECKs that nothing was lost, torn or overtaken. Returns the number of accesses.
  std::uint64_t check() const;

 private:
  // A page's words. Each word is for all players or for one of them, as its name says.
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
    std::uint64_t lost;       // a player's own words that changed unexpectedly
    std::uint64_t torn;       // sequence lock: a mixture was read
    std::uint64_t overtaken;  // a flag without its message, or time running backwards
    std::array<std::uint64_t, pages> increments;
    std::array<std::uint64_t, pages> owned;
  };
  static constexpr unsigned pages_per_group = 8;          // neighbours in one region
  static constexpr std::size_t group_bytes = 512u << 10;  // four groups in a block

  // The arguments of a kernel that plays.
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
