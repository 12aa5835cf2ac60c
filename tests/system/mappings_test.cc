// Programs that are close to vm.max_map_count, or above the library's share of it. The protection
// trap needs a mapping for each run of pages with the same state: there faults must bring more and
// more neighboring pages instead of failing, and no data may be lost. With the other traps none of
// this may be noticeable.
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

#include "support/capabilities.h"
#include "support/catch.h"
#include "support/child.h"
#include "support/cpu.h"
#include "support/session.h"
#include "support/witness.h"

namespace wherry::test::mappings_test {
namespace {

constexpr std::size_t page_bytes = 4096;
constexpr std::size_t block_bytes = std::size_t{1} << 21;

// The limit on mappings of a process (vm.max_map_count); 0 if it is too high for the test to use it
// up.
std::size_t mappings_max() {
  std::ifstream file{"/proc/sys/vm/max_map_count"};
  std::size_t most = 0;
  file >> most;
  return most > 100'000 ? 0 : most;
}

// Mappings of the program's own: every second page of a range has other rights than its neighbors.
class OwnMappings {
 public:
  explicit OwnMappings(std::size_t most)
      : start_(static_cast<char*>(::mmap(nullptr, most * page_bytes, PROT_NONE,
                                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0))),
        most_(most) {
    expect(start_ != MAP_FAILED, "no range of the program's own");
  }
  // Adds `count` mappings, or as many as Linux allows.
  void take(std::size_t count) {
    for (std::size_t taken = 0; taken < count && next_ + 1 < most_; taken += 2, next_ += 2)
      if (::mprotect(start_ + (next_ + 1) * page_bytes, page_bytes, PROT_READ) != 0) return;
  }
  // Removes the `count` latest mappings.
  void give_back(std::size_t count) {
    const std::size_t first = next_ - std::min(next_, count);
    expect(
        ::mprotect(start_ + first * page_bytes, (next_ + 1 - first) * page_bytes, PROT_NONE) == 0,
        "mappings cannot be removed");
    next_ = first;
  }

 private:
  char* const start_;
  const std::size_t most_;
  std::size_t next_ = 0;  // the pages from here on are one mapping
};

void in_process_with_few(const std::function<void(std::size_t most)>& body) {
  const std::size_t most = mappings_max();
  if (most == 0) return;  // a machine with a raised limit
  const Outcome outcome = in_fresh_process(
      [&] {
        ::setenv("WHERRY_FAULT_REGION", "4K", 1);
        body(most);
      },
      200'000);
  INFO(outcome.describe());
  CHECK(outcome.passed());
}

std::uint64_t faults() {
  const wherryStats stats = read_stats();
  return stats.faults_missing + stats.faults_minor + stats.faults_write_protect;
}

}  // namespace

TEST_CASE("scattered pages come in larger pieces when mappings are short, and become few mappings",
          "[system]") {
  in_process_with_few([](std::size_t most) {
    const Session session{"capacity=256M"};
    const std::size_t budget = most - most / 8;
    OwnMappings own(most);
    own.take(budget * 5 / 8);
    const std::size_t before = count_mappings();
    // Uses every second page: neighbors would share a mapping.
    const std::size_t pages = budget / 2 / 512 * 512;
    const Managed<std::uint64_t> memory(pages * page_bytes / sizeof(std::uint64_t));
    const auto at = [start = memory.data()](std::size_t page) -> std::uint64_t& {
      return start[page * page_bytes / sizeof(std::uint64_t)];
    };
    const auto check_all = [&](std::uint64_t more) {
      for (std::size_t page = 0; page < pages; page += 2)
        if (at(page) != page + more) expect(false, "page " + std::to_string(page) + " is wrong");
    };
    for (std::size_t page = 0; page < pages; page += 2) {
      at(page) = page;
      if (page % 2000 == 0) expect(count_mappings() <= budget, "too many mappings");
    }
    // A device takes every third of the host's pages, and divides its mappings.
    session.run(0, [at, pages] {
      for (std::size_t page = 0; page < pages; page += 6) at(page) += 1'000'000;
    });
    for (std::size_t page = 0; page < pages; page += 6) {
      at(page) -= 1'000'000;
      if (page % 6000 == 0) expect(count_mappings() <= budget, "too many mappings");
    }
    check_all(0);
    if (!traps_by_protection()) return;
    // Checks the mappings and faults that remain after all accesses.
    const std::uint64_t faults_before = faults();
    check_all(0);
    expect(count_mappings() < before + pages / 32,
           "the arena is fragmented: " + std::to_string(count_mappings() - before) +
               " mappings for it");
    expect(faults() - faults_before < pages / 32,
           "pages come one by one: " + std::to_string(faults() - faults_before) + " faults");
  });
}

TEST_CASE("an instruction gets all its pages at once in a program with almost no mappings left",
          "[system]") {
  in_process_with_few([](std::size_t most) {
    const Session session{"capacity=64M"};
    const Managed<char> memory(4 * block_bytes);
    // Makes neighboring pages differ: every second page of the first block becomes read-mostly, so
    // it will have write-protected copies.
    const auto start = reinterpret_cast<CUdeviceptr>(memory.data());
    for (std::size_t at = 0; at < block_bytes; at += 2 * page_bytes)
      WHERRY_TRY(cuMemAdvise(start + at, page_bytes, CU_MEM_ADVISE_SET_READ_MOSTLY,
                             {CU_MEM_LOCATION_TYPE_DEVICE, 0}));
    // Moves all pages to the device, so that the host has none mapped.
    session.run(0, [to = memory.data()] { std::memset(to, 5, 4 * block_bytes); });
    OwnMappings own(most);
    own.take(most);
    own.give_back(16);
    constexpr int rounds = 2000;
    std::mt19937 random(7);
    const std::uint64_t before = faults();
    const auto any = [&](std::size_t below) { return random() % below; };
    for (int round = 0; round < rounds; ++round) {
      // Reads a value that crosses a page boundary.
      const char* const across =
          memory.data() + (1 + any(block_bytes / page_bytes)) * page_bytes - 4;
      std::uint64_t value;
      std::memcpy(&value, across, sizeof value);
      expect(value == 0x0505050505050505, "a value across pages");
      // Copies between two random addresses.
      volatile char* const from = memory.data() + any(memory.size());
      volatile char* const to = memory.data() + block_bytes + any(3 * block_bytes);
      copy_byte(from, to);
      // From time to time the device takes many of the pages back.
      if (round % 100 == 0)
        session.run(0, [to = memory.data()] {
          for (std::size_t at = 0; at < 4 * block_bytes; at += 3 * page_bytes)
            *static_cast<volatile char*>(to + at) = 5;
        });
    }
    // Most faults bring a page that is absent here. Some bring back a page that was unmapped again.
    if (traps_by_protection())
      expect(faults() - before < 40 * rounds, std::to_string(faults() - before) + " faults");
    for (const char* at = memory.data(); at < memory.data() + memory.size(); ++at)
      if (*at != 5) expect(false, "a byte is lost");
  });
}

TEST_CASE("threads and a device use scattered pages in a program with more mappings than its share",
          "[system]") {
  in_process_with_few([](std::size_t most) {
    const Session session{"capacity=64M"};
    OwnMappings own(most);
    own.take(most);
    own.give_back(300);
    using Counter = std::atomic<std::uint64_t>;
    constexpr std::size_t pages = 4096;
    constexpr std::size_t stride = page_bytes / sizeof(Counter);
    const Managed<Counter> counters(pages * stride);
    constexpr std::uint64_t rounds = 4000;
    const auto work = [start = counters.data()](unsigned seed) {
      for (std::uint64_t i = 0, at = seed; i < rounds; ++i) {
        at = (at * 1'103'515'245 + 12'345) % pages;
        ++start[at * stride];
      }
    };
    session.launch(0, 1, [work](std::size_t) { work(3); });
    std::thread other([&] { work(1); });
    work(2);
    other.join();
    WHERRY_TRY(session.wait(0));
    std::uint64_t sum = 0;
    for (std::size_t page = 0; page < pages; ++page) sum += counters[page * stride];
    expect(sum == 3 * rounds, "increments were lost");
  });
}

}  // namespace wherry::test::mappings_test
